"""What stands between schemathesis and the service: nothing that is made up is ever a program, nothing is huge, and some of
what is made up is a job that exists.

The queue is paused as well, so that nothing starts at all. Each of the two would be enough.
"""

import os

import schemathesis

# Jobs that are there to the end, and jobs that may go.
KEPT = os.environ["NEXUS_FUZZ_KEPT"].split(",")
SPARE = os.environ["NEXUS_FUZZ_SPARE"].split(",")

MOST = 20


@schemathesis.serializer("application/jsonl")
def jsonl(context, value):
    return value.encode(errors="surrogatepass") if isinstance(value, str) else str(value).encode()


@schemathesis.hook
def before_call(context, case, kwargs):
    path = case.operation.path
    bound(case.query)
    if path.startswith("/v1/jobs/{id}/") or case.operation.label == "GET /v1/jobs/{id}":
        case.path_parameters["id"] = known(case.path_parameters["id"], KEPT)
    if path.startswith("/v1/sweeps/{name}"):
        case.path_parameters["name"] = known(case.path_parameters["name"], ["kept"])
    if path.endswith("/log"):
        # Of a job that waits they would be waited for.
        for endless in ["follow", "from"]:
            (case.query or {}).pop(endless, None)
    if isinstance(case.body, (dict, list)):
        tame(case.body)
    if isinstance(case.body, dict) and isinstance(case.body.get("ids"), list):
        case.body["ids"] = [known(made_up, SPARE) for made_up in case.body["ids"][:MOST]]


def known(made_up, jobs):
    """Half of them are jobs; which, is the same for the same word."""
    number = sum(str(made_up).encode(errors="surrogatepass"))
    return jobs[number // 2 % len(jobs)] if number % 2 else made_up


def bound(fields):
    """A million jobs are allowed, and take a while."""
    for name in ["copies", "count"]:
        if isinstance((fields or {}).get(name), int) and not isinstance(fields[name], bool):
            fields[name] = min(fields[name], MOST)


def tame(value):
    """Commands do nothing, however they are said: after a `#` or as arguments of `true`."""
    if isinstance(value, list):
        for item in value:
            if isinstance(item, (dict, list)):
                tame(item)
        return
    bound(value)
    for name, inner in value.items():
        if name == "shell" and isinstance(inner, str):
            value[name] = harmless(inner)
        elif name == "argv" and isinstance(inner, list) and inner:
            value[name] = ["true", *inner[1:]]
        elif name in ["text", "base"] and isinstance(inner, str):
            value[name] = "\n".join(harmless(line) for line in inner.split("\n"))
        elif name == "cwd" and isinstance(inner, str) and len(inner) % 2:
            value[name] = os.environ["NEXUS_FUZZ_FOLDER"]
        elif isinstance(inner, (dict, list)):
            tame(inner)


def harmless(text):
    if not text.strip() or "\0" in text:
        return text
    return "true # " + text.replace("\n", " ").replace("\r", " ")
