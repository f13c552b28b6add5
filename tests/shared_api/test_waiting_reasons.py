"""What both programs know of the reasons why a unit waits."""

from __future__ import annotations

from shared_api.crds import QUEUE_UNIT
from shared_api.waiting_reasons import NOT_WRITTEN, TO_MEND


def test_a_reason_that_is_not_written_reads_waiting_by_the_crd() -> None:
    version = QUEUE_UNIT.body()["spec"]["versions"][0]
    status = version["schema"]["openAPIV3Schema"]["properties"]["status"]
    assert status["default"]["message"] == NOT_WRITTEN
    columns = {each["name"]: each["jsonPath"] for each in version["additionalPrinterColumns"]}
    assert columns["MESSAGE"] == ".status.message"


def test_that_is_none_to_mend() -> None:
    assert NOT_WRITTEN not in TO_MEND
