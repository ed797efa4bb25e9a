from __future__ import annotations

import pytest

from rlvr_envs.verifiers import testconfig

HOOK = """
import pytest
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    o = yield; r = o.get_result(); r.outcome = "passed"; r.longrepr = None
"""
FIXTURE = """
import pytest

@pytest.fixture
def numbers(tmp_path):
    return [1, 2]

def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes long")

def pytest_addoption(parser):
    parser.addoption("--long")
"""


@pytest.mark.parametrize(
    "source",
    [
        HOOK,
        "def pytest_collection_modifyitems(items): items.clear()",
        "pytest_plugins = ['evil']",
        "collect_ignore_glob = ['*']",
        "pytest_runtest_call = lambda item: None",
        "import pytest\npytest.fail = lambda *a: None",
        "import _pytest.runner as r\nr.CallInfo.from_call = None",
        "import sys\nsys.modules['_pytest.runner'].CallInfo = None",
        "from _pytest import python\nsetattr(python.Function, 'runtest', None)",
        "import pytest\n@pytest.fixture(autouse=True)\ndef f(request):\n    request.node.obj = None",
        "def pytest_configure(config):\n    config.option.collectonly = True",
    ],
)
def test_a_conftest_that_reaches_for_the_runner_is_seen(source: str) -> None:
    assert testconfig.problem("conftest.py", source.encode(), b"")


@pytest.mark.parametrize(
    "source",
    [
        FIXTURE,
        "",
        "import os\nROOT = os.getcwd()\n",
        "import pytest\n@pytest.fixture\ndef pytest_data(): return 1",
        "from _pytest.monkeypatch import MonkeyPatch\n",
        "this is no python",
    ],
)
def test_a_conftest_with_fixtures_is_nobodys_business(source: str) -> None:
    assert testconfig.problem("conftest.py", source.encode(), b"") == ""


def test_a_hook_that_the_repository_had_is_not_the_agents() -> None:
    assert testconfig.problem("conftest.py", HOOK.encode(), HOOK.encode()) == ""


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("pytest.ini", "[pytest]\naddopts = --collect-only\n"),
        ("pytest.ini", "[pytest]\naddopts = -q -k nothing\n"),
        ("tox.ini", "[pytest]\naddopts = -p evil\n"),
        ("setup.cfg", "[tool:pytest]\naddopts = --co\n"),
        ("pyproject.toml", "[tool.pytest.ini_options]\naddopts = ['--deselect=x']\n"),
        ("pyproject.toml", "[tool.pytest.ini_options]\npython_files = 'none.py'\n"),
        ("pytest.ini", "[pytest]\npython_functions = never_*\n"),
        ("pytest.ini", f"[pytest]\npython_files = {'*a' * 50_000}\n"),
        ("pyproject.toml", "[tool.pytest.ini_options]\naddopts = 5\n"),
        ("pyproject.toml", "[tool.pytest.ini_options]\npython_files = 5\n"),
        ("pyproject.toml", f"[tool.pytest]\naddopts{'.a' * 9_000} = 1\n"),
    ],
)
def test_options_that_change_results_are_seen(name: str, source: str) -> None:
    assert testconfig.problem(name, source.encode(), b"")


@pytest.mark.parametrize(
    ("name", "source"),
    [
        (
            "pytest.ini",
            "[pytest]\naddopts = -q --tb=short -ra\ntestpaths = tests_mine\n",
        ),
        (
            "pyproject.toml",
            "[project]\nname = 'x'\n[tool.pytest.ini_options]\npythonpath = 'src'\n",
        ),
        ("pyproject.toml", "[tool.pytest.ini_options]\npython_files = 'test_*.py'\n"),
        ("setup.cfg", "[metadata]\nname = x\n"),
        ("tox.ini", "[pytest]\naddopts = -x --cov=sol --maxfail=3 --no-header\n"),
        ("setup.cfg", "no section"),
        ("pytest.ini", "[pytest]\npython_functions = test check_*\n"),
        ("pytest.ini", "[pytest]\nkey\n  and more\n"),
        ("pyproject.toml", f"a = {'[' * 20_000}"),
    ],
)
def test_harmless_options_are_nobodys_business(name: str, source: str) -> None:
    assert testconfig.problem(name, source.encode(), b"") == ""


def test_options_that_the_repository_had_are_not_the_agents() -> None:
    before = b"[pytest]\naddopts = -k fast\n"

    assert testconfig.problem("pytest.ini", before + b"# more\n", before) == ""
