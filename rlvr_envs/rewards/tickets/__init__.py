"""Rule-scored business tickets: five dimensions, capped by guardrails."""
