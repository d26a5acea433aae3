"""Pages and the Link header, as GitHub's clients follow them."""

import pytest

from github_emulator.rest.paging import paginate

URL = "https://api.example/repositories/1/issues"


def test_paginate_all_on_one_page_has_no_link() -> None:
    """A list that fits on one page comes without a Link header."""
    assert paginate(list(range(30)), {}, URL) == (list(range(30)), {})


def test_paginate_first_page_leads_to_next_and_last() -> None:
    """The first page names the next and the last, and keeps the other parameters."""
    items, headers = paginate(list(range(250)), {"per_page": "100", "labels": "a b"}, URL)
    assert items == list(range(100))
    assert headers["Link"] == (
        f'<{URL}?per_page=100&labels=a%20b&page=2>; rel="next", <{URL}?per_page=100&labels=a%20b&page=3>; rel="last"'
    )


def test_paginate_last_page_leads_back() -> None:
    """The last page names the previous and the first only."""
    items, headers = paginate(list(range(250)), {"per_page": "100", "page": "3"}, URL)
    assert items == list(range(200, 250))
    assert 'rel="prev"' in headers["Link"]
    assert 'rel="first"' in headers["Link"]
    assert 'rel="next"' not in headers["Link"]


@pytest.mark.parametrize(
    ("query", "size"), [({}, 30), ({"per_page": "1000"}, 100), ({"per_page": "0"}, 30), ({"per_page": "x"}, 30)]
)
def test_paginate_page_size_is_bounded(query: dict[str, str], size: int) -> None:
    """Thirty items by default, never more than a hundred, nonsense is the default."""
    items, _ = paginate(list(range(250)), query, URL)
    assert len(items) == size
