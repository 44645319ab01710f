"""The files of `deploy/` against their schemas, and against the program: settings, commands, probes, times."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from qianxun.engine.settings import Settings, load

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
SCHEMAS = Path(__file__).parent / "schemas"
COMPOSE = DEPLOY / "compose.yaml"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
CLOSE_SECONDS = Settings().service.close_seconds


def compose() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(COMPOSE.read_text("utf-8"))
    return read


def objects() -> Iterator[dict[str, Any]]:
    for path in MANIFESTS:
        yield from yaml.safe_load_all(path.read_text("utf-8"))


@cache
def checker(file: str, kind: str = "") -> Any:
    """Of a schema, or of one of the kinds that it defines; to check the schemas themselves takes longest."""
    schema: dict[str, Any] = json.loads((SCHEMAS / file).read_text("utf-8"))
    chosen = {**schema, **schema["$defs"][kind]} if kind else schema
    return jsonschema.validators.validator_for(chosen)(chosen)


def check_object(one: dict[str, Any]) -> None:
    checker("kubernetes.json", f"{one['apiVersion']} {one['kind']}").validate(one)


def check_compose(read: dict[str, Any]) -> None:
    checker("compose.json").validate(read)


def test_the_schemas_are_schemas() -> None:
    for file in ("kubernetes.json", "compose.json"):
        schema = json.loads((SCHEMAS / file).read_text("utf-8"))
        jsonschema.validators.validator_for(schema).check_schema(schema)


def deployments() -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in objects() if one["kind"] == "Deployment"}


def pod(name: str) -> dict[str, Any]:
    spec: dict[str, Any] = deployments()[name]["spec"]["template"]["spec"]
    return spec


# ── schemas ──────────────────────────────────────────────────────────────────────────────────────


def test_the_compose_file_is_one() -> None:
    check_compose(compose())


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (("services", "replica", "portz"), []),
        (("services", "replica", "depends_on"), {"postgres": {"condition": "service_fine"}}),
        (("services", "replica", "healthcheck", "retries"), []),
        (("service",), {}),
    ],
)
def test_a_wrong_compose_file_is_caught(at: tuple[str, ...], value: Any) -> None:
    wrong = deepcopy(compose())
    place = wrong
    for name in at[:-1]:
        place = place[name]
    place[at[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        check_compose(wrong)


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_the_manifests_are_objects_of_kubernetes(path: Path) -> None:
    found = list(yaml.safe_load_all(path.read_text("utf-8")))
    assert found
    for one in found:
        check_object(one)


@pytest.mark.parametrize("name", ["readinesProbe", "livenessprobe", "limits"])
def test_a_wrong_manifest_is_caught(name: str) -> None:
    wrong = deepcopy(deployments()["qianxun"])
    wrong["spec"]["template"]["spec"]["containers"][0][name] = {}
    with pytest.raises(jsonschema.ValidationError):
        check_object(wrong)


# ── what schemas do not know ─────────────────────────────────────────────────────────────────────


def environments() -> Iterator[dict[str, str]]:
    for service in compose()["services"].values():
        given = service.get("environment", {})
        if service["image"].startswith("${QIANXUN_IMAGE"):
            yield given
    for one in objects():
        if one["kind"] in ("ConfigMap", "Secret"):
            yield one.get("data") or one["stringData"]


def test_every_variable_is_a_setting_of_ours(tmp_path: Path) -> None:
    names = {name for given in environments() for name in given}
    assert len(names) > 8
    for name in sorted(names):
        assert name.startswith("QIANXUN_")
        value = {"PORT": "19530", "SIZE": "10", "SECONDS": "30"}.get(name.rpartition("_")[2], "x")
        settings = load(environment={name: value}, folder=tmp_path)  # an unknown one is refused
        assert any(source.startswith(f"环境变量 {name}") or name in source for source in settings.origins.values()), (
            name
        )


def test_commands_are_commands_of_ours() -> None:
    from qianxun.doors.cli.app import COMMANDS

    known = set(COMMANDS)
    used = [service["command"] for service in compose()["services"].values() if "QIANXUN_IMAGE" in service["image"]]
    for one in deployments().values():
        spec = one["spec"]["template"]["spec"]
        used += [container["args"] for container in (*spec["containers"], *spec["initContainers"])]
    assert {command[0] for command in used} <= known
    assert {"serve", "worker"} <= {command[0] for command in used}


def test_images_are_named_without_a_registry_and_with_a_version() -> None:
    images = [re.sub(r"\$\{[A-Z_]+:-(.*)\}", r"\1", service["image"]) for service in compose()["services"].values()]
    for one in deployments().values():
        spec = one["spec"]["template"]["spec"]
        images += [container["image"] for container in (*spec["containers"], *spec["initContainers"])]
    for image in images:
        first, _, rest = image.partition("/")
        assert not rest or ("." not in first and ":" not in first), image
        assert re.search(r":[\w.-]+$", image), image


def test_what_is_stopped_has_time_to_finish() -> None:
    grace = pod("qianxun")["terminationGracePeriodSeconds"]
    (container,) = pod("qianxun")["containers"]
    (_, seconds) = container["lifecycle"]["preStop"]["exec"]["command"]
    (chosen,) = (one["data"] for one in objects() if one["kind"] == "ConfigMap")
    drain = int(chosen["QIANXUN_SERVICE_DRAIN_SECONDS"])
    assert grace > CLOSE_SECONDS + drain + int(seconds)
    # Nobody is sent to a pod that goes: it is taken out before the process is told.
    probe = container["readinessProbe"]
    assert int(seconds) >= probe["periodSeconds"]
    replica = compose()["services"]["replica"]
    drain = int(replica["environment"]["QIANXUN_SERVICE_DRAIN_SECONDS"])
    assert int(replica["stop_grace_period"].rstrip("s")) > CLOSE_SECONDS + drain


def test_replicas_are_asked_whether_they_are_ready_and_whether_they_live() -> None:
    (container,) = pod("qianxun")["containers"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert "/readyz" in str(compose()["services"]["replica"]["healthcheck"]["test"])


def test_a_rolling_update_takes_no_replica_away_before_another_is_ready() -> None:
    strategy = deployments()["qianxun"]["spec"]["strategy"]
    assert strategy == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    budgets = {one["metadata"]["name"]: one["spec"] for one in objects() if one["kind"] == "PodDisruptionBudget"}
    for name, one in deployments().items():
        assert budgets[name]["selector"] == one["spec"]["selector"]
        assert budgets[name]["minAvailable"] < one["spec"]["replicas"], "a machine could never be emptied"


def test_selectors_find_the_pods_they_are_meant_for() -> None:
    labels = deployments()["qianxun"]["spec"]["template"]["metadata"]["labels"]
    (service,) = (one for one in objects() if one["kind"] == "Service")
    assert service["spec"]["selector"] == labels
    (ingress,) = (one for one in objects() if one["kind"] == "Ingress")
    assert ingress["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]["name"] == service["metadata"]["name"]
    for one in deployments().values():
        assert one["spec"]["selector"]["matchLabels"] == one["spec"]["template"]["metadata"]["labels"]


def test_everything_has_limits_and_nothing_of_ours_runs_as_root() -> None:
    for name, service in compose()["services"].items():
        assert service["deploy"]["resources"]["limits"].keys() >= {"cpus", "memory"}, name
    for name in deployments():
        spec = pod(name)
        assert spec["securityContext"]["runAsNonRoot"]
        for container in (*spec["containers"], *spec["initContainers"]):
            assert container["securityContext"]["readOnlyRootFilesystem"]
            assert "memory" in container["resources"]["limits"]


def test_no_secret_is_in_the_files() -> None:
    text = COMPOSE.read_text("utf-8")
    needed = set(re.findall(r"\$\{(\w+):\?", text))
    example = dict(
        line.split("=", 1) for line in (DEPLOY / "env.example").read_text("utf-8").splitlines() if "=" in line
    )
    assert needed == set(example)
    assert not any(example.values())
    (secret,) = (one for one in objects() if one["kind"] == "Secret")
    assert all("CHANGE-ME" in value for value in secret["stringData"].values())


def test_volumes_are_declared() -> None:
    declared = set(compose()["volumes"])
    used = {mount.partition(":")[0] for one in compose()["services"].values() for mount in one.get("volumes", [])}
    assert {name for name in used if not name.startswith(".")} == declared
    assert all((DEPLOY / name).exists() for name in used if name.startswith("."))
