"""Some files of the input, which nobody else has in hand: examined, scored, entered one by one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kpca_stream import passes
from kpca_stream.config import Config
from kpca_stream.config.score_schema import Score
from kpca_stream.errors import ConfigError, DataError
from kpca_stream.fitplan import BASIS_SHARE
from kpca_stream.numerics.footprint import IMPORT_BYTES, PARSER_BYTES
from kpca_stream.signals import undisturbed
from kpca_stream.stages.scoring import Examined, Known, PartResult, Written, examine, write_part
from kpca_stream.storage.basis import BasisAddress
from kpca_stream.storage.carried import check_types
from kpca_stream.storage.deliveries import Delivery
from kpca_stream.storage.ledger import Entry, ScoredPart
from kpca_stream.storage.scores import Label, part_name
from kpca_stream.storage.shelf import Shelf, settle
from kpca_stream.storage.source import Source
from kpca_stream.storage.sources.table import steps
from kpca_stream.telemetry import Reporter

PART_ROWS = 65_536
"""A task that a kill can cost, and that a worker can take: seconds against thousands of rows of a basis."""

BLOCKS_BYTES = 2**25
"""Of a task: rows, their scores, the strips of a tile."""

Entered = Callable[[Delivery, Entry, tuple[ScoredPart, ...]], None]
"""Is told of a file that was entered, and of the parts that are new."""


class Model(NamedTuple):
    """The version of the model that scores now."""

    version: int
    fit: str
    n_components: int
    address: BasisAddress


@dataclass(frozen=True)
class Work:
    """Ranges of rows of one input file that are to be scored, parts that stay, and parts that give way."""

    delivery: Delivery
    before: Entry | None
    source: Source
    bounds: tuple[tuple[int, int], ...]
    kept: tuple[ScoredPart, ...]
    replaced: tuple[ScoredPart, ...]


@dataclass
class Batch:
    """What it takes to score some files.

    Parameters
    ----------
    config : Config
    asked : Score
        Its section ``score``.
    model : Model
    shelf : Shelf
    reporter : Reporter
    entered : callable
    is_strict : bool
        Whether a file that cannot be scored is an error whatever was asked: the input is nothing else.
    alive : callable
        Is called now and then while it goes on.
    lost : int
        Files that somebody else entered meanwhile, or whose parts were gone before they were shown: to be
        looked into again.
    """

    config: Config
    asked: Score
    model: Model
    shelf: Shelf
    reporter: Reporter
    entered: Entered
    is_strict: bool = False
    alive: Callable[[], None] = lambda: None
    lost: int = 0

    def score(self, taken: Sequence[Delivery]) -> None:
        """Score files that are claimed; each is entered when all of its parts are whole.

        Raises
        ------
        DataError
            For a file that cannot be scored or holds other rows than before, where that is to be an error.
        ConfigError
            For scores that do not fit those to which they are added.
        """
        works = list(self._examined(taken))
        tasks = [(work, bounds) for work in works for bounds in work.bounds]
        results: dict[str, list[PartResult | DataError]] = {work.delivery.name: [] for work in works}
        for work in works:
            if not work.bounds:  # only its time has changed
                self._enter(work, [])

        def fold(index: int, result: PartResult | DataError) -> None:
            work, found = tasks[index][0], results[tasks[index][0].delivery.name]
            found.append(result)
            if len(found) == len(work.bounds):
                self._finish(work, found)

        if tasks:
            calls = passes.Lazy(len(tasks), lambda index: self._call(*tasks[index]))
            progress = self.reporter.step("scores")

            def tell(done: int, total: int) -> None:
                progress(done, total)
                self.alive()

            passes.run(calls, fold, progress=tell, at_once=self._at_once(works))

    def _at_once(self, works: Sequence[Work]) -> int:
        """Tasks that memory allows at once, beside the basis and what a process takes anyway."""
        task = BLOCKS_BYTES + max(work.source.reading_bytes for work in works)
        spare = (1 - BASIS_SHARE) * self.config.limits.memory - IMPORT_BYTES - PARSER_BYTES
        return max(1, int(spare // task)) * max(1, passes.n_processes())

    def _examined(self, taken: Sequence[Delivery]) -> Iterator[Work]:
        entries = [self._settled(delivery.name) for delivery in taken]
        chosen = self.config.data.columns is not None
        calls = [
            passes.Call(
                examine,
                (self.model.address, file.path, file.rows, _known(entry), self.asked.carry, chosen),
            )
            for file, entry in zip(taken, entries, strict=True)
        ]
        found: list[Examined | ConfigError | DataError] = []
        passes.run(calls, lambda _, result: found.append(result))
        for delivery, entry, examined in zip(taken, entries, found, strict=True):
            if isinstance(examined, Examined):
                yield self._work(delivery, entry, examined)
            else:
                self._set_aside(delivery, entry, examined)

    def _settled(self, name: str) -> Entry | None:
        """The entry of an input file, once what another scorer began there has ended."""
        entry = self.shelf.ledger.read(name)
        while entry is not None and not entry.is_settled:
            settle(self.shelf, entry)
            entry = self.shelf.ledger.read(name)
        return entry

    def _work(self, delivery: Delivery, entry: Entry | None, examined: Examined) -> Work:
        parts = () if entry is None else entry.parts
        is_changed = examined.n_same < len(parts)
        if is_changed and self.asked.on_changed == "error":
            part = parts[examined.n_same]
            raise DataError(
                f"{delivery.path}: rows {part.start} to {part.stop - 1} are not those that were scored "
                f"({part.file}); restore the file, or set score.on_changed: rescore"
            )
        is_old = self.asked.on_new_version == "rescore" and any(part.fit != self.model.fit for part in parts)
        kept, replaced = ((), parts) if is_changed or is_old else (parts, ())
        start = kept[-1].stop if kept else 0
        bounds = tuple(steps(start, examined.source.n_samples, self.asked.input.part_rows or PART_ROWS))
        if kept and bounds:
            self.shelf.check(self.model.n_components)
        return Work(delivery, entry, examined.source, bounds, kept, replaced)

    def _call(self, work: Work, bounds: tuple[int, int]) -> passes.Call:
        start, stop = bounds
        label = Label(source=work.delivery.name, model=self.config.name, version=self.model.version)
        how = Written(label=label, carry=self.asked.carry, on_missing=self.config.data.on_missing)
        target = self.shelf.target(self._aside(work, start))
        arguments = (self.model.address, work.source.part(start, stop), start, target, how)
        return passes.Call(write_part, arguments, label=target.name)

    def _aside(self, work: Work, start: int) -> str:
        """The name of a part until its rows are known."""
        return f"{self.shelf.mark}{self._part_name(work, start, '')}"

    def _part_name(self, work: Work, start: int, content: str) -> str:
        file = work.delivery
        # Rows that come back get a new name, so that who is slow to remove them removes what is gone.
        since = "" if work.before is None else work.before.at
        identity = f"{file.name}\n{file.rows}\n{start}\n{content}\n{since}"
        name = f"{file.name}-{start:09d}"
        return part_name(name, identity, self.config.name, self.model.version, self.model.fit)

    def _finish(self, work: Work, found: list[PartResult | DataError]) -> None:
        whole = [result for result in found if isinstance(result, PartResult)]
        fault = next((result for result in found if isinstance(result, DataError)), None)
        fault = fault or self._disagreement(work, whole)
        if fault is None:
            self._enter(work, whole)
            return
        self.shelf.discard(self._aside(work, start) for start, _ in work.bounds)
        self._set_aside(work.delivery, work.before, fault)

    def _disagreement(self, work: Work, results: Sequence[PartResult]) -> DataError | None:
        """Why what a file carries through would not make one table with what was entered before."""
        try:
            for types in (result.types for result in results if result.types):
                check_types(types, self.shelf.ledger.agreed(types), work.delivery.name)
        except DataError as error:
            return error
        return None

    def _enter(self, work: Work, results: list[PartResult]) -> None:
        parts = tuple(
            self._part(work, bounds, result) for bounds, result in zip(work.bounds, results, strict=True)
        )
        aside = {part.file: self._aside(work, part.start) for part in parts}
        gone = tuple(part.file for part in work.replaced if part.file not in aside)
        with undisturbed():
            self._write(work.delivery, work.before, work.kept + parts, aside=aside, gone=gone)

    def _part(self, work: Work, bounds: tuple[int, int], result: PartResult) -> ScoredPart:
        return ScoredPart(
            start=bounds[0],
            stop=bounds[1],
            content=result.content,
            file=self._part_name(work, bounds[0], result.content),
            n_rows=result.n_rows,
            n_novel=result.n_novel,
            version=self.model.version,
            fit=self.model.fit,
        )

    def _set_aside(self, delivery: Delivery, entry: Entry | None, fault: ConfigError | DataError) -> None:
        if self.is_strict or self.asked.on_bad == "error":
            raise fault
        if entry is None or entry.fault != str(fault):
            self.reporter.note(f"set aside: {fault}")
        self._write(delivery, entry, () if entry is None else entry.parts, fault=str(fault))

    def _write(
        self,
        delivery: Delivery,
        before: Entry | None,
        parts: tuple[ScoredPart, ...],
        *,
        aside: dict[str, str] | None = None,
        gone: tuple[str, ...] = (),
        fault: str | None = None,
    ) -> None:
        entry = Entry(
            name=delivery.name,
            stamp=delivery.stamp,
            fit=self.model.fit,
            parts=parts,
            fault=fault,
            at=time.time(),
            aside=aside or {},
            gone=gone,
        )
        try:
            written = self.shelf.ledger.write(entry, over=before)
        except DataError as error:  # too many parts for an entry
            self.shelf.discard(entry.aside.values())
            if fault is not None:
                raise
            self._set_aside(delivery, before, error)
            return
        if written is None:
            self.shelf.discard(entry.aside.values())
            self.lost += 1
            return
        ended = settle(self.shelf, written)
        if ended.parts != parts:
            self.lost += 1
        else:
            self.entered(delivery, ended, tuple(part for part in parts if part.file in entry.aside))


def _known(entry: Entry | None) -> tuple[Known, ...]:
    return tuple(Known(part.start, part.stop, part.content) for part in entry.parts) if entry else ()
