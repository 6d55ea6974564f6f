"""Lists that grow with a table, kept in pages: sealed objects of consecutive items, written once.

The manifest names the pages, and has the items after the last page itself. So a change that adds items writes the
manifest, and a page only when one is full. A page whose items change is written anew; all others are named again.
Pages are cut by counts, never by values.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ClassVar, Generic, NoReturn, Protocol, Self, TypeVar, overload

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema


class Reference(Protocol):
    """What names a stored page. `name`: of its object. `count`: of its items."""

    @property
    def count(self) -> int: ...

    @property
    def name(self) -> str: ...


_THREADS = 8  # that read pages

T = TypeVar("T")
P = TypeVar("P", bound=Reference)
R = TypeVar("R")


class Form(BaseModel, Generic[T, R]):
    """How the manifest has a list: references of its pages, then the items after the last page."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    pages: tuple[R, ...] = ()
    last: tuple[T, ...] = ()


class Content(BaseModel, Generic[T]):
    """The content of a page."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    items: tuple[T, ...]


class Page(Generic[T, P]):
    """Consecutive items. `stored`: what names them; None if they are not stored yet."""

    __slots__ = ("_items", "_make", "stored")

    def __init__(self, stored: P | None, make: Callable[[], tuple[T, ...]]) -> None:
        """`make` reads or makes the items at first use."""
        self.stored = stored
        self._make = make
        self._items: tuple[T, ...] | None = None

    @classmethod
    def of(cls, items: tuple[T, ...], stored: P | None = None) -> Self:
        page = cls(stored, lambda: items)
        page._items = items
        return page

    @property
    def count(self) -> int:
        return self.stored.count if self._items is None and self.stored is not None else len(self.items)

    @property
    def is_read(self) -> bool:
        return self._items is not None

    @property
    def items(self) -> tuple[T, ...]:
        """Raises CheckFailed, StoreError, if they are read only now."""
        if self._items is None:
            self._items = self._make()
        return self._items


def read_pages(pages: Iterable[Page[Any, Any]]) -> None:
    """Read those of `pages` that are not read yet, several at once. Raises CheckFailed, StoreError."""
    due = [each for each in pages if not each.is_read]
    if len(due) < 2:
        for each in due:
            _ = each.items
        return
    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(lambda page: page.items, due))


def _unread() -> NoReturn:
    raise AssertionError("a page of a list that has no reader yet")


class Paged(Sequence[T], Generic[T, P]):
    """An immutable list in pages. `pages`, then `last`: the items after the last page."""

    FORM: ClassVar[type[Form[Any, Any]]]
    CONTENT: ClassVar[type[Content[Any]]]
    MOST: ClassVar[int]  # items of a page
    MOST_BYTES: ClassVar[int] = 1 << 18  # of a page, by `size`: it is full then

    __slots__ = ("last", "pages")

    def __init__(self, pages: Iterable[Page[T, P]] = (), last: Iterable[T] = ()) -> None:
        self.pages = tuple(pages)
        self.last = tuple(last)

    @staticmethod
    def size(item: Any) -> int:  # noqa: ARG004 - of lists whose items have one size
        """About how many bytes an item takes; it depends on counts alone."""
        return 0

    @classmethod
    def of(cls, items: Iterable[T]) -> Self:
        return cls().extended(items)

    def extended(self, items: Iterable[T]) -> Self:
        """This list and further items. No page is read."""
        *full, last = self._cut([*self.last, *items])
        return type(self)((*self.pages, *(Page[T, P].of(each) for each in full)), last)

    def rearranged(self, items: Iterable[T]) -> Self:
        """A list of `items`, which keeps each of these pages whose items follow each other in it. Reads all pages."""
        every = tuple(items)
        self.read()
        firsts: Mapping[T, Page[T, P]] = {page.items[0]: page for page in self.pages if page.items}
        parts: list[Page[T, P] | list[T]] = []
        place = 0
        while place < len(every):
            page = firsts.get(every[place])
            if page is not None and every[place : place + page.count] == page.items:
                parts.append(page)
                place += page.count
                continue
            if not parts or isinstance(parts[-1], Page):
                parts.append([])
            assert isinstance(parts[-1], list)  # noqa: S101 - as just made
            parts[-1].append(every[place])
            place += 1
        return self._joined(parts)

    def _joined(self, parts: Sequence[Page[T, P] | list[T]]) -> Self:
        """A list of pages that stay, and of runs of items, which take over the small pages beside them."""
        runs = [isinstance(each, list) for each in parts]
        taken = [
            is_run or (self._is_small(each) and (any(runs[max(0, at - 1) : at]) or any(runs[at + 1 : at + 2])))
            for at, (each, is_run) in enumerate(zip(parts, runs, strict=True))
        ]
        pages: list[Page[T, P]] = []
        last: tuple[T, ...] = ()
        for is_taken, group in itertools.groupby(zip(parts, taken, strict=True), lambda it: it[1]):
            together = [each for each, _ in group]
            if last:
                pages.append(Page.of(last))
                last = ()
            if is_taken:
                run = [item for each in together for item in (each.items if isinstance(each, Page) else each)]
                *full, last = self._cut(run)
                pages += [Page.of(each) for each in full]
            else:
                pages += [each for each in together if isinstance(each, Page)]
        return type(self)(pages, last)

    def _is_small(self, page: Page[T, P] | list[T]) -> bool:
        items = page.items if isinstance(page, Page) else page
        return 2 * len(items) < self.MOST and 2 * sum(map(self.size, items)) < self.MOST_BYTES

    def _cut(self, items: Iterable[T]) -> list[tuple[T, ...]]:
        """Full pages, and the items that do not fill one, if there are any."""
        parts: list[tuple[T, ...]] = []
        part, size = list[T](), 0
        for item in items:
            part.append(item)
            size += self.size(item)
            if len(part) == self.MOST or size >= self.MOST_BYTES:
                parts.append(tuple(part))
                part, size = [], 0
        return [*parts, tuple(part)]

    def loading(self, load: Callable[[P], tuple[T, ...]], known: Mapping[str, Page[T, P]]) -> Self:
        """This list, whose pages are read by `load`, except those that are `known` by the names of their objects."""
        stored = [page.stored for page in self.pages if page.stored is not None]
        return type(self)((known.get(each.name) or Page(each, partial(load, each)) for each in stored), self.last)

    def written(self, write: Callable[[tuple[T, ...], bytes], P]) -> Self:
        """This list with all pages stored. `write` stores the content of one, given its items too."""

        def stored(page: Page[T, P]) -> Page[T, P]:
            if page.stored is not None:
                return page
            content = self.CONTENT(items=page.items).model_dump_json().encode()
            return Page.of(page.items, write(page.items, content))

        return type(self)(map(stored, self.pages), self.last)

    def read(self) -> Self:
        """Read all pages that are not read yet, several at once. Raises CheckFailed, StoreError."""
        read_pages(self.pages)
        return self

    def form(self) -> Form[T, P]:
        """How the manifest has it. All pages must be stored."""
        stored = tuple(page.stored for page in self.pages)
        assert None not in stored  # noqa: S101 - the caller has written them
        return self.FORM.model_construct(pages=stored, last=self.last)

    def __len__(self) -> int:
        return sum(page.count for page in self.pages) + len(self.last)

    def __iter__(self) -> Iterator[T]:
        read_pages(self.pages)
        for page in self.pages:
            yield from page.items
        yield from self.last

    def __reversed__(self) -> Iterator[T]:
        """From the last item; a page is read when its items are due."""
        yield from reversed(self.last)
        for page in reversed(self.pages):
            yield from reversed(page.items)

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[T, ...]: ...
    def __getitem__(self, place: int | slice) -> T | tuple[T, ...]:
        if isinstance(place, slice):
            return tuple(self)[place]
        at = place if place >= 0 else len(self) + place
        for page in self.pages:
            if 0 <= at < page.count:
                return page.items[at]
            at -= page.count
        if at < 0:
            raise IndexError(place)
        return self.last[at]

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Sequence) and tuple(self) == tuple(other))

    def __hash__(self) -> int:
        return hash(len(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)})"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        form = handler.generate_schema(cls.FORM)
        made = core_schema.no_info_after_validator_function(cls._of_form, form)
        return core_schema.json_or_python_schema(
            json_schema=made,
            python_schema=core_schema.union_schema([core_schema.is_instance_schema(cls), made]),
            serialization=core_schema.plain_serializer_function_ser_schema(cls.form, return_schema=form),
        )

    @classmethod
    def _of_form(cls, form: Form[T, P]) -> Self:
        return cls((Page[T, P](each, _unread) for each in form.pages), form.last)
