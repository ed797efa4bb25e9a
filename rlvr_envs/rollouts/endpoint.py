"""A model behind an OpenAI-compatible endpoint, driven with real tool calls."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from rlvr_envs.errors import MissingRequirement, WorldError
from rlvr_envs.records import ToolSpec
from rlvr_envs.rollouts.policies import Action, Policy, PolicySpec, submission

if TYPE_CHECKING:
    import openai
    from openai.types.chat import ChatCompletion, ChatCompletionMessage

SYSTEM = (
    "You solve a task in a sandbox by calling tools. Every reply has to call at least "
    "one tool. When the task is solved, call the tool that submits."
)
NUDGE = "Go on with a tool call, or submit if you are done."


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the model is and how it is asked.

    Attributes:
        base_url: Up to and including the version: ``http://localhost:8000/v1``.
        api_key: Sent as a bearer token; local servers take any.
        timeout_s: For one request.
        retries: Attempts after the first, on 429, 5xx and lost connections, with
            exponential backoff (or what Retry-After says).
        temperature: ``None`` leaves it to the server; so does `max_tokens`.
        nudges: Replies without a tool call in a row that are answered by asking
            again; after one more the episode is submitted.
    """

    base_url: str
    model: str
    api_key: str = "none"
    timeout_s: float = 120.0
    retries: int = 5
    temperature: float | None = None
    max_tokens: int | None = None
    system: str = SYSTEM
    nudges: int = 1


class Chat:
    """One conversation: tool calls out, observations back, one turn each."""

    def __init__(self, client: openai.OpenAI, endpoint: Endpoint, seed: int) -> None:
        self._client = client
        self._endpoint = endpoint
        self._seed = seed
        self._messages: list[Any] = [{"role": "system", "content": endpoint.system}]
        self._said: list[Mapping[str, Any]] = []
        self._pending: deque[Any] = deque()
        self._awaiting = ""
        self._asked = False

    def __call__(
        self, observation: str, _info: Mapping[str, Any], tools: Sequence[ToolSpec], /
    ) -> Action:
        """Answer the last call, ask if none is left, and return the next."""
        self._hear(observation)
        for _ in range(self._endpoint.nudges + 1):
            if not self._pending:
                self._ask(tools)
            if self._pending:
                return self._next()
            self._messages.append({"role": "user", "content": NUDGE})
        self._awaiting = ""
        return submission(tools)

    def take_messages(self) -> Sequence[Mapping[str, Any]]:
        """Return the replies since the last time, whole, with their token usage."""
        said, self._said = self._said, []
        return said

    def _hear(self, observation: str) -> None:
        if self._awaiting:
            answer = {"role": "tool", "tool_call_id": self._awaiting}
            self._messages.append({**answer, "content": observation})
        else:
            self._messages.append({"role": "user", "content": observation})

    def _next(self) -> Action:
        call = self._pending.popleft()
        self._awaiting = call["id"]
        return {"type": "function", "function": call["function"]}

    def _ask(self, tools: Sequence[ToolSpec]) -> None:
        completion = self._request([tool.openai() for tool in tools])
        self._asked = True
        if not completion.choices:
            raise WorldError("The endpoint answered without a choice.")
        message = completion.choices[0].message
        sent = _as_sent(message)
        self._messages.append(sent)
        self._pending.extend(sent.get("tool_calls", ()))
        usage = completion.usage.model_dump(mode="json") if completion.usage else {}
        self._said.append({**message.model_dump(mode="json"), "usage": usage})

    def _request(self, tools: list[Any]) -> ChatCompletion:
        import openai  # noqa: PLC0415  # an extra; only this policy needs it

        asked: dict[str, Any] = {
            "temperature": self._endpoint.temperature,
            "max_tokens": self._endpoint.max_tokens,
        }
        try:
            completion: ChatCompletion = self._client.chat.completions.create(
                model=self._endpoint.model,
                messages=list(self._messages),
                tools=tools,
                seed=self._seed,
                **{key: value for key, value in asked.items() if value is not None},
            )
        except openai.APIStatusError as error:
            raise self._refused(error) from error
        except openai.APIConnectionError as error:
            raise self._unreachable(error) from error
        except (openai.APIError, json.JSONDecodeError) as error:
            raise WorldError(
                f"The endpoint's answer makes no sense: {error}"
            ) from error
        return completion

    def _refused(self, error: openai.APIStatusError) -> Exception:
        said = f"{self._endpoint.base_url} answered {error.status_code}: {error}."
        if error.status_code == 429 or error.status_code >= 500:
            return WorldError(said, remedy="try again later, or raise --retries")
        return MissingRequirement(
            said, remedy="check --model, --api-key and --base-url"
        )

    def _unreachable(self, error: Exception) -> Exception:
        said = f"Nothing answers at {self._endpoint.base_url}: {error}"
        if self._asked:
            return WorldError(said, remedy="look at the server's log")
        return MissingRequirement(said, remedy="start the server or check --base-url")


def _as_sent(message: ChatCompletionMessage) -> dict[str, Any]:
    """Return a reply as it goes back into the conversation: content and calls."""
    calls = [
        {"id": call.id, "type": "function", "function": call.function.model_dump()}
        for call in message.tool_calls or ()
        if call.type == "function"
    ]
    sent: dict[str, Any] = {"role": "assistant", "content": message.content or ""}
    return {**sent, "tool_calls": calls} if calls else sent


def endpoint_policy(endpoint: Endpoint) -> PolicySpec:
    """Return the policy that asks an endpoint; its client is shared by episodes.

    Raises:
        MissingRequirement: If the client package is not installed.
    """
    client = _client(endpoint)

    def make(_env: gym.Env[Any, Any], seed: int) -> Policy:
        return Chat(client, endpoint, seed)

    return PolicySpec(f"openai:{endpoint.model}", make)


def _client(endpoint: Endpoint) -> openai.OpenAI:
    try:
        import openai  # noqa: PLC0415  # an extra; only this policy needs it
    except ImportError as error:
        raise MissingRequirement(
            "The openai package is not installed.",
            remedy="pip install 'rlvr-envs[openai]'",
        ) from error
    return openai.OpenAI(
        base_url=endpoint.base_url,
        api_key=endpoint.api_key,
        timeout=endpoint.timeout_s,
        max_retries=endpoint.retries,
    )
