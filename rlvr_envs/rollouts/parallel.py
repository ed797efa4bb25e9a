"""Many episodes at once: threads, since the work is in other processes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Self

import gymnasium as gym

from rlvr_envs.rollouts.episodes import Job, Result, run_episode

MakeEnv = Callable[[], gym.Env[Any, Any]]


class Pool:
    """Plays jobs on a number of environments, each owned by one thread.

    Args:
        make: Builds an environment; called once in each thread that gets work.
        size: Environments alive at once, at least 1.
        ended: Called with an environment whose episode has just been judged.

    Raises:
        ValueError: If the size is below 1.
    """

    def __init__(
        self,
        make: MakeEnv,
        *,
        size: int = 1,
        ended: Callable[[gym.Env[Any, Any]], None] = lambda _: None,
    ) -> None:
        if size < 1:
            raise ValueError(f"a pool needs at least one environment, not {size}.")
        self._make = make
        self._ended = ended
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="rlvr-episode")
        self._mine = threading.local()
        self._lock = threading.Lock()
        self._envs: list[gym.Env[Any, Any]] = []
        self._stopped = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def play(
        self, jobs: Sequence[Job], *, done: Callable[[Result], None] = lambda _: None
    ) -> Iterator[Result]:
        """Yield results in the order of the jobs.

        Args:
            jobs: All are handed out at once; a free environment takes the next.
            done: Called from a worker thread as soon as an episode ends.

        Raises:
            CallerError: The first that a job raises; jobs not begun are dropped.
        """
        futures: list[Future[Result]] = [
            self._threads.submit(self._one, job, done) for job in jobs
        ]
        try:
            for future in futures:
                yield future.result()
        finally:
            for future in futures:
                future.cancel()

    def close(self) -> None:
        """Stop after the turns in hand and close every environment; idempotent."""
        self._stopped.set()
        self._threads.shutdown(wait=True, cancel_futures=True)
        while self._envs:
            self._envs.pop().close()

    def _one(self, job: Job, done: Callable[[Result], None]) -> Result:
        result = run_episode(
            self._env(), job, stop=self._stopped.is_set, ended=self._ended
        )
        done(result)
        return result

    def _env(self) -> gym.Env[Any, Any]:
        env: gym.Env[Any, Any] | None = getattr(self._mine, "env", None)
        if env is None:
            env = self._mine.env = self._make()
            with self._lock:
                self._envs.append(env)
        return env
