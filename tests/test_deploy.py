"""What `deploy/` holds passes the validators of the systems that read it, and does what its pages say."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest
from click import Command, Group
from ruamel.yaml import YAML

from kpca_stream.cli.commands import commands
from kpca_stream.config import load_config

DEPLOY = Path(__file__).parents[1] / "deploy"
KUBERNETES_VERSION = "1.31"
CUSTOM_RESOURCES = ("operator", "deployment", "helm", "dask-kubernetes-operator", "crds")
CONFIGURATIONS = sorted(DEPLOY.rglob("fit*.yaml"))
SCRIPTS = sorted(DEPLOY.rglob("*.sh"))
UNITS = sorted(path for path in (DEPLOY / "systemd").iterdir() if path.suffix != ".md")
PAGES = sorted(DEPLOY.rglob("README.md"))
MANIFESTS = sorted(
    path for path in (DEPLOY / "kubernetes").glob("*.yaml") if path.name != "kustomization.yaml"
)
LATER = {"refit", "models"}
"""Commands that may not be there yet; once they are, their arguments are checked too."""


def name_of(path: Path) -> str:
    return str(path.relative_to(DEPLOY))


def tool(name: str) -> str:
    """A linter that a package of the extra ``lint`` brings."""
    found = shutil.which(name) or shutil.which(name, path=Path(sys.executable).parent)
    if found is None:
        pytest.skip(f"{name} is not installed: pip install 'kpca-stream[lint]'")
    return found


def checked(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def documents(path: Path) -> list[Any]:
    return list(YAML(typ="safe", pure=True).load_all(path.read_text()))


def rendered() -> list[Any]:
    """The manifests as they are; by kustomize, where kubectl is there."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        return [document for path in MANIFESTS for document in documents(path)]
    done = subprocess.run(
        [kubectl, "kustomize", DEPLOY / "kubernetes"], capture_output=True, text=True, check=True
    )
    return list(YAML(typ="safe", pure=True).load_all(done.stdout))


def pods(document: Any) -> list[dict[str, Any]]:
    """Every pod's specification in a document."""
    if isinstance(document, list):
        return [pod for item in document for pod in pods(item)]
    if not isinstance(document, dict):
        return []
    return [document] if "containers" in document else pods(list(document.values()))


def test_pods_read_the_recipe() -> None:
    """The configuration that pods are given as a ConfigMap is the recipe, as the page says to make it."""
    page = (DEPLOY / "kubernetes" / "README.md").read_text()
    made = re.search(r"create configmap (\S+) --from-file=configs/(\S+)", page)
    assert made is not None
    assert made[2] == "kubernetes.yaml"
    load_config(DEPLOY.parent / "configs" / "kubernetes.yaml")
    found = [text for document in rendered() for text in texts(document)]
    assert found.count(made[1]) == found.count(f"/etc/kpca-stream/{made[2]}") == 2


def texts(document: Any) -> list[str]:
    """Every string in a document."""
    if isinstance(document, str):
        return [document]
    if not isinstance(document, dict | list):
        return []
    values = document.values() if isinstance(document, dict) else document
    return [text for value in values for text in texts(value)]


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=name_of)
def test_configurations_are_sound(path: Path) -> None:
    """Every configuration beside a form of deployment is one."""
    assert load_config(path).name == "digits"


def test_the_dockerfile_passes_its_linter() -> None:
    """Hadolint finds nothing, and no rule is switched off."""
    checked(tool("hadolint"), "--failure-threshold", "style", DEPLOY / "docker" / "Dockerfile")
    assert "hadolint ignore" not in (DEPLOY / "docker" / "Dockerfile").read_text()


def test_the_image_is_no_users_with_rights_and_has_locked_versions() -> None:
    """The last user is a number other than 0, bases are pinned, and versions come from the lock."""
    text = (DEPLOY / "docker" / "Dockerfile").read_text()
    assert re.findall(r"^USER (\d+)", text, re.MULTILINE)[-1] != "0"
    bases = re.findall(r"^FROM (.*)$", text, re.MULTILINE)
    assert all(re.search(r":\d+\.\d+\.\d+-slim", base) for base in bases)
    assert "--constraint requirements.lock" in text


def test_the_compose_file_is_one() -> None:
    """The compose specification's own types take the file."""
    compose = pytest.importorskip(
        "compose_spec", reason="compose-spec is not installed: pip install 'kpca-stream[lint]'"
    )
    text = (DEPLOY / "docker" / "compose.yaml").read_text()
    found = documents(DEPLOY / "docker" / "compose.yaml")[0]
    assert {"scheduler", "worker", "fit"} <= set(found["services"])
    compose.PyCompose(text)


def test_the_containers_have_no_rights() -> None:
    """Every service is read-only, without capabilities, and publishes to this machine only."""
    for service in documents(DEPLOY / "docker" / "compose.yaml")[0]["services"].values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["mem_limit"]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


@pytest.mark.parametrize("path", SCRIPTS, ids=name_of)
def test_scripts_pass_their_linter(path: Path) -> None:
    """Shellcheck finds nothing, and no rule is switched off."""
    checked(tool("shellcheck"), "--severity=style", path)
    assert "shellcheck disable" not in path.read_text()
    assert path.stat().st_mode & 0o111


def test_manifests_meet_kubernetes_schemas() -> None:
    """Every object of Kubernetes' own meets the strict schema of the oldest version that is served."""
    validate = pytest.importorskip(
        "kubernetes_validate", reason="not installed: pip install 'kpca-stream[lint]'"
    )
    kinds = []
    for document in rendered():
        if "dask.org" not in document["apiVersion"]:
            validate.validate(document, KUBERNETES_VERSION, strict=True)
            kinds.append(document["kind"])
    assert {"CronJob", "Deployment", "PersistentVolumeClaim", "Namespace"} <= set(kinds)


def test_clusters_meet_the_operators_schemas() -> None:
    """Every object of the Dask operator's meets the schema in its package, its pods those of Kubernetes."""
    pytest.importorskip("dask_kubernetes", reason="not installed: pip install 'kpca-stream[k8s]'")
    folder = files("dask_kubernetes").joinpath(*CUSTOM_RESOURCES)
    ours = [document for document in rendered() if "dask.org" in document["apiVersion"]]
    assert {document["kind"] for document in ours} == {"DaskCluster", "DaskAutoscaler"}
    for document in ours:
        text = (folder / f"{document['kind'].lower()}.yaml").read_text()
        resource = YAML(typ="safe", pure=True).load(text)
        versions = {version["name"]: version for version in resource["spec"]["versions"]}
        schema = versions[document["apiVersion"].partition("/")[2]]["schema"]["openAPIV3Schema"]
        jsonschema.validate(document, closed(schema))


def closed(schema: Any) -> Any:
    """The schema with every object that lists its keys closed to others, unless it says that it is open."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: closed(value) for key, value in schema.items()}
    has_keys = isinstance(found.get("properties"), dict) and found.get("type") == "object"
    is_open = found.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in found
    is_root = has_keys and "spec" in found["properties"]
    return {**found, "additionalProperties": False} if has_keys and not is_open and not is_root else found


def test_pods_have_no_rights_and_have_limits() -> None:
    """Every container is not root, read-only, without capabilities, and limited in memory and processors."""
    found = [pod for document in rendered() for pod in pods(document)]
    assert len(found) == 4
    for pod in found:
        assert pod["securityContext"]["runAsNonRoot"] is True
        for container in pod["containers"]:
            security, limits = container["securityContext"], container["resources"]["limits"]
            assert security["readOnlyRootFilesystem"] is True
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert security["allowPrivilegeEscalation"] is False
            assert set(limits) == {"cpu", "memory"}


def test_exit_codes_are_those_of_the_package() -> None:
    """The nightly job never runs twice at once, fails where nothing helps, and else tries again."""
    job = documents(DEPLOY / "kubernetes" / "refit.yaml")[0]["spec"]
    assert job["concurrencyPolicy"] == "Forbid"
    actions = {
        code: rule["action"]
        for rule in job["jobTemplate"]["spec"]["podFailurePolicy"]["rules"]
        for code in rule.get("onExitCodes", {}).get("values", [])
    }
    dag = airflow()
    for code in (1, 2, 65):
        assert actions[code] == "FailJob"
        assert dag.outcome(code) == "fail"
    for code in (75, 130, 143):
        assert actions[code] == "Count"
        assert dag.outcome(code) == "retry"
    assert dag.outcome(0) == "done"
    unit = (DEPLOY / "systemd" / "kpca-refit@.service").read_text()
    assert "Restart=on-failure" in unit
    assert "RestartPreventExitStatus=1 2 65" in unit


def airflow() -> ModuleType:
    """The DAG's module, as it is read where Airflow is not installed."""
    spec = importlib.util.spec_from_file_location("kpca_refit", DEPLOY / "airflow" / "kpca_refit.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_units_are_sound(tmp_path: Path) -> None:
    """``systemd-analyze verify`` finds nothing in the units, started for one model."""
    program = tmp_path / "kpca-stream"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    for path in UNITS:
        text = path.read_text().replace("/opt/kpca-stream/bin/kpca-stream", str(program))
        (tmp_path / path.name.replace("@.", "@digits.")).write_text(text)
    units = sorted(str(path) for path in tmp_path.glob("*@digits.*"))
    assert len(units) == 3
    done = subprocess.run(
        [tool("systemd-analyze"), "verify", "--man=no", *units], capture_output=True, text=True, check=False
    )
    about_ours = [line for line in done.stderr.splitlines() if "kpca" in line]
    assert (done.returncode, about_ours) == (0, [])


def test_cron_lines_are_whole() -> None:
    """Every line of the crontab is a variable, or five times, a user and a command."""
    lines = (DEPLOY / "cron" / "kpca-stream").read_text().splitlines()
    jobs = [line for line in lines if line and not line.startswith("#") and not re.match(r"^[A-Z]+=", line)]
    assert len(jobs) == 2
    assert all(re.match(r"^(\d+|\*)( (\d+|\*)){4} kpca cd \S+ && kpca-stream refit \S+", job) for job in jobs)


def command_words(text: str) -> list[list[str]]:
    """Every call of ``kpca-stream`` in a page or a file, as its words."""
    found = re.findall(r"kpca-stream((?: (?:fit|run|score|refit|models|plan|verify)\b)[^\n`|&]*)", text)
    return [line.split() for line in found]


@pytest.mark.parametrize("path", [*PAGES, *SCRIPTS, *UNITS, DEPLOY / "cron" / "kpca-stream"], ids=name_of)
def test_commands_exist(path: Path) -> None:
    """Every command and option that a page or a file calls is one of this package's."""
    for words in command_words(path.read_text()):
        command: Command | None = commands
        while isinstance(command, Group) and words and not words[0].startswith("-"):
            word = words.pop(0)
            command = None if word in LATER - set(command.commands) else command.commands[word]
        if command is None:
            continue
        options = {option for parameter in command.params for option in parameter.opts}
        given = {word for word in words if word.startswith("--")}
        assert given <= options, (path, given - options)


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_pages_name_files_that_are_there(path: Path) -> None:
    """Every link and every file of the checkout that a page names exists."""
    text = path.read_text()
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    assert all((path.parent / link).exists() for link in links), links
    named = re.findall(r"\b(?:deploy|configs)/[\w./@*-]+[\w*]", text)
    assert all((DEPLOY.parent / name).exists() for name in named if "*" not in name), named


def test_the_config_schema_knows_clusters() -> None:
    """The printed schema of configurations tells editors the keys of clusters."""
    from kpca_stream.config import json_schema

    keys = json.dumps(json_schema()["$defs"]["Cluster"])
    assert all(f'"{key}"' in keys for key in ("kind", "class", "slurm", "kubernetes", "tls", "adapt"))
