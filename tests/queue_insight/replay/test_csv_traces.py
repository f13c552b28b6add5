"""Traces that are tables: a made sample of each form, and what is wrong with broken ones."""

from __future__ import annotations

import io

import pytest

from queue_insight.replay.csv_traces import NORMALIZED, OPENB, OWN, CsvForm
from queue_insight.replay.jobs import GPU, GPU_CORE, Job, TraceError

OWN_TEXT = """\
submit_seconds,run_seconds,quota,user,queue,namespace,name,priority,pods,limit_seconds,preemptible,cpu,memory,nvidia.com/gpu
10,60.5,red,ann,fast,ns,first,7,2,100,false,500m,2Gi,1
0,5,blue,,,,,,,,,1,,

20,,blue,,,,,,,,,1,,
"""
NORMALIZED_TEXT = """\
submit_time_s,duration_s,tenant,priority,replicas,cpu_milli,memory_bytes,gpu,status
0,100,red,,1,,,8,
5,10,,LS,2,12000,1048576,0.46,Running
6,,blue,3,1,1000,,0,Pending
"""
OPENB_TEXT = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
pod-1,12000,16384,1,1000,,LS,Running,0,100,10
pod-2,6000,1,1,460,V100,BE,Failed,5,50,20
pod-3,2000,0,2,1000,,Burstable,Succeeded,6,50,20
pod-4,2000,0,0,0,,BE,Pending,7,,
"""


def test_the_projects_own_form() -> None:
    trace = OWN.read("t.csv", io.StringIO(OWN_TEXT))
    assert trace.jobs == (
        Job(line=3, submit=0.0, run=5.0, tenant="blue", requests={"cpu": "1"}),
        Job(
            line=2,
            name="first",
            submit=10.0,
            run=60.5,
            tenant="red",
            user="ann",
            queue="fast",
            namespace="ns",
            priority=7,
            pods=2,
            requests={"cpu": "500m", "memory": "2Gi", GPU: "1"},
            limit=100,
            preemptible=False,
        ),
    )
    assert trace.skipped == {"it never ran": 1}


def test_the_normalized_form() -> None:
    trace = NORMALIZED.read("t.csv", io.StringIO(NORMALIZED_TEXT))
    assert trace.jobs == (
        Job(line=2, submit=0.0, run=100.0, tenant="red", requests={GPU: "8", GPU_CORE: "800"}),
        Job(
            line=3,
            submit=5.0,
            run=10.0,
            priority=9000,
            pods=2,
            requests={"cpu": "12000m", "memory": "1048576", GPU_CORE: "46"},
        ),
    )
    assert trace.skipped == {"it never ran": 1}


def test_the_normalized_form_may_name_users() -> None:
    text = NORMALIZED_TEXT.replace("tenant,", "tenant,user,").replace("red,,", "red,ann,,")
    text = text.replace("5,10,,LS", "5,10,,,LS").replace("6,,blue,3", "6,,blue,,3")
    trace = NORMALIZED.read("t.csv", io.StringIO(text))
    assert [(job.tenant, job.user) for job in trace.jobs] == [("red", "ann"), ("", "")]


def test_openb() -> None:
    trace = OPENB.read("t.csv", io.StringIO(OPENB_TEXT))
    got = [(job.name, job.submit, job.run, job.priority, job.requests) for job in trace.jobs]
    size = 1024**2
    assert got == [
        ("pod-1", 0.0, 90.0, 9000, {
            "cpu": "12000m", "memory": str(16384 * size), GPU: "1", GPU_CORE: "100",
        }),
        ("pod-2", 5.0, 30.0, 5000, {"cpu": "6000m", "memory": str(size), GPU_CORE: "46"}),
        ("pod-3", 6.0, 30.0, 7000, {"cpu": "2000m", GPU: "2", GPU_CORE: "200"}),
    ]  # fmt: skip
    assert trace.skipped == {"it never ran": 1}


BROKEN = {
    "a missing column": ("run_seconds,cpu", "line 1: it has no column submit_seconds"),
    "an unknown column": (
        "submit_seconds,run_seconds,cpu,prority",
        "line 1: column 'prority' is neither known nor a resource",
    ),
    "no resource": (
        "submit_seconds,run_seconds,quota",
        "line 1: it has no column of a resource, such as cpu",
    ),
    "a column twice": (
        "submit_seconds,run_seconds,cpu,cpu",
        "line 1: column 'cpu' stands there twice",
    ),
    "a short row": (
        "submit_seconds,run_seconds,cpu\n0,1,1\n0,1",
        "line 3: it has 2 cells, and the header line has 3",
    ),
    "a word for a time": (
        "submit_seconds,run_seconds,cpu\nsoon,1,1",
        "line 2: submit_seconds is 'soon', want seconds, 0 or more",
    ),
    "a time below 0": (
        "submit_seconds,run_seconds,cpu\n0,-1,1",
        "line 2: run_seconds is '-1', want seconds, 0 or more",
    ),
    "a time that is no number": (
        "submit_seconds,run_seconds,cpu\n0,nan,1",
        "line 2: run_seconds is 'nan', want seconds, 0 or more",
    ),
    "no pods": (
        "submit_seconds,run_seconds,cpu,pods\n0,1,1,0",
        "line 2: pods is '0', want a whole number above 0",
    ),
    "a priority that is a word": (
        "submit_seconds,run_seconds,cpu,priority\n0,1,1,high",
        "line 2: priority is 'high', want a whole number",
    ),
    "an amount that is none": (
        "submit_seconds,run_seconds,memory\n0,1,2GiB",
        "line 2: memory is '2GiB', want an amount such as 4, 500m or 2Gi",
    ),
    "an amount below 0": (
        "submit_seconds,run_seconds,cpu\n0,1,-1",
        "line 2: cpu is '-1', want an amount that is not negative",
    ),
    "neither true nor false": (
        "submit_seconds,run_seconds,cpu,preemptible\n0,1,1,no",
        "line 2: preemptible is 'no', want true or false",
    ),
    "a row over two lines before it": (
        'submit_seconds,run_seconds,cpu,name\n0,1,1,"a\nb"\n0,x,1,c',
        "line 4: run_seconds is 'x', want seconds, 0 or more",
    ),
    "a quote that is not closed": (
        'submit_seconds,run_seconds,cpu\n0,1,"1',
        "line 2: unexpected end of data",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_errors_say_file_line_what_and_where_to_look(name: str) -> None:
    text, want = BROKEN[name]
    with pytest.raises(TraceError) as raised:
        OWN.read("t.csv", io.StringIO(text))
    assert str(raised.value) == f"t.csv, {want}; docs/replay.md has the columns"


@pytest.mark.parametrize(("reader", "text", "want"), [
    (NORMALIZED, NORMALIZED_TEXT.replace("LS", "Gold"),
     "line 3: priority is 'Gold', want a number or one of Guaranteed, LS, Burstable, BE"),
    (NORMALIZED, "submit_time_s,duration_s\n", "line 1: it has no column tenant, cpu_milli,"),
    (OPENB, OPENB_TEXT.replace("0,100,10", "0,5,10"),
     "line 2: deletion_time is before scheduled_time"),
    (OPENB, OPENB_TEXT.replace("num_gpu", "gpus"), "line 1: it has no column num_gpu"),
], ids=["an unknown class", "columns", "an end before the start", "a column"])  # fmt: skip
def test_errors_of_the_other_forms(reader: CsvForm, text: str, want: str) -> None:
    with pytest.raises(TraceError) as raised:
        reader.read("t.csv", io.StringIO(text))
    assert str(raised.value).startswith(f"t.csv, {want}")
    assert f'docs/replay.md has the columns, under "{reader.name}"' in str(raised.value)


def test_a_pod_of_openb_without_an_end_is_left_out() -> None:
    text = OPENB_TEXT.replace("0,100,10", "0,,10")
    assert OPENB.read("t.csv", io.StringIO(text)).skipped["its end is not known"] == 1
