"""The reasons why a unit waits, as both programs know them."""

from __future__ import annotations

from shared_api.crds import QUEUE_UNIT
from shared_api.waiting_reasons import NEEDS_ACTION, NOT_WRITTEN


def test_a_message_that_is_not_written_has_the_default_of_the_crd() -> None:
    version = QUEUE_UNIT.body()["spec"]["versions"][0]
    status = version["schema"]["openAPIV3Schema"]["properties"]["status"]
    assert status["default"]["message"] == NOT_WRITTEN
    columns = {each["name"]: each["jsonPath"] for each in version["additionalPrinterColumns"]}
    assert columns["MESSAGE"] == ".status.message"


def test_the_default_is_not_a_reason_to_repair() -> None:
    assert NOT_WRITTEN not in NEEDS_ACTION
