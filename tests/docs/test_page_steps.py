"""The steps of a page: commands with what they show, and files."""

from __future__ import annotations

import pytest

from tests.docs.page_steps import Command, File, steps_of

PAGE = """# Page

    $ kubectl get queues
    NAME   AGE
    a      ...

    kubectl port-forward x

- In a list:

      $ koord-queue hold job/a
      job.batch/a on hold

```yaml
# a.yaml
kind: Queue
```

```yaml
kind: Job
```

    $ one
    $ two
"""


def test_commands_and_files_are_found_in_their_order() -> None:
    assert list(steps_of(PAGE)) == [
        Command("kubectl get queues", ("NAME   AGE", "a      ...")),
        Command("koord-queue hold job/a", ("job.batch/a on hold",)),
        File("a.yaml", "# a.yaml\nkind: Queue\n"),
        Command("one", ()),
        Command("two", ()),
    ]


@pytest.mark.parametrize(
    ("printed", "want"),
    [
        pytest.param("NAME AGE\na 3m\n", [], id="other spaces, and the end of a line"),
        pytest.param("NAME AGE\nb 3m\n", ["a"], id="another row"),
    ],
)
def test_lines_that_were_not_printed_are_named(printed: str, want: list[str]) -> None:
    assert Command("x", ("NAME   AGE", "a      ...")).missing(printed) == want
