"""What lies in the input, what of it is due, and when to look again."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from kpca_stream import passes
from kpca_stream.cluster import single_threaded_blas
from kpca_stream.config import Config
from kpca_stream.fitplan import BASIS_SHARE
from kpca_stream.results import ScoreSummary, SetAside
from kpca_stream.scorer.asking import score_of, shelf_of
from kpca_stream.scorer.batch import Batch, Model
from kpca_stream.scorer.heartbeat import Done, Heart
from kpca_stream.signals import Terminated
from kpca_stream.storage.basis import BasisAddress
from kpca_stream.storage.deliveries import Delivery, Settling
from kpca_stream.storage.inbox import arrived, is_single
from kpca_stream.storage.ledger import Entry, ScoredPart
from kpca_stream.storage.registry import Registry
from kpca_stream.storage.shelf import settle
from kpca_stream.telemetry import Reporter

BATCH_FILES = 64
BATCH_BYTES = 2**28
LISTED = 20
"""Files named in a summary."""
RETRY_SECONDS = 600.0
"""After which a file set aside is looked into again, by one who follows: what was wrong may have passed."""
PATIENCE = 0.5
"""Seconds between two looks at what others have in hand."""


@dataclass(frozen=True)
class Mark:
    """What is remembered of an entry: enough to see whether its file must be looked into, and to count."""

    stamp: str
    fit: str
    n_parts: int
    n_rows: int
    n_novel: int
    fault: str | None
    at: float
    is_mixed: bool = False

    @classmethod
    def of(cls, entry: Entry) -> Mark:
        """The mark of an entry."""
        is_mixed = entry.fault is None and any(part.fit != entry.fit for part in entry.parts)
        return cls(
            stamp=entry.stamp,
            fit=entry.fit,
            n_parts=len(entry.parts),
            n_rows=entry.n_rows,
            n_novel=entry.n_novel,
            fault=entry.fault,
            at=entry.at,
            is_mixed=is_mixed,
        )


@dataclass(frozen=True)
class Look:
    """What a look left undone: files still being written, and files that others have in hand."""

    unsettled: int
    busy: int


@dataclass
class Scorer:
    """Scores what lies in the input of a configuration, each row once.

    Parameters
    ----------
    config : Config
        With a section ``score``.
    reporter : Reporter

    Raises
    ------
    ConfigError
        If there is no such section, input or model, or if the output holds the scores of something else.
    """

    config: Config
    reporter: Reporter
    done: Done = field(default_factory=Done)
    marks: dict[str, Mark] = field(default_factory=dict)
    present: tuple[str, ...] = ()
    is_strict: bool = False

    def __post_init__(self) -> None:
        self.asked = score_of(self.config)
        self.registry = Registry.of(self.config.models.path, self.config.name)
        self.model = self._champion()
        arrived(self.asked.input.path, self.asked.input.rows)  # a wrong path leaves no output
        self.shelf = shelf_of(self.config, self.asked)
        self.settling = Settling(self.asked.input.settle_seconds)

    def work_off(self) -> ScoreSummary:
        """Score all that is there and settled; wait for what others have in hand.

        Raises
        ------
        DataError, ConfigError
            If the input is one file or array that cannot be scored; files of a folder are set aside.
        """
        self.is_strict = is_single(self.asked.input.path)
        began, seconds = time.perf_counter(), self.asked.input.settle_seconds
        while True:
            look = self.look()
            is_late = time.perf_counter() - began > 2 * seconds
            if not look.busy and (is_late or not look.unsettled):
                break
            time.sleep(PATIENCE if look.busy else min(PATIENCE, seconds / 4))
        self.sweep()
        return self.summary(time.perf_counter() - began, waiting=look.unsettled)

    def follow(self) -> ScoreSummary:
        """Look again and again until SIGTERM or SIGINT comes; a file in hand then is left untouched."""
        began, waiting = time.perf_counter(), 0
        with Heart.of(self.asked, self.config.name, self.shelf.status, self.done) as heart:
            try:
                while True:
                    waiting = self._look_of_follower(heart)
                    heart.beat("waiting", waiting)
                    time.sleep(self.asked.look_seconds)
            except (Terminated, KeyboardInterrupt):
                heart.beat("ended", waiting)
            except Exception:
                heart.beat("failed", waiting)
                raise
        return self.summary(time.perf_counter() - began, waiting=waiting)

    def look(self, heart: Heart | None = None) -> Look:
        """Look once at the input and score what is new in it."""
        found = arrived(self.asked.input.path, self.asked.input.rows)
        self.present = tuple(delivery.name for delivery in found)
        self.marks = {name: self.marks[name] for name in self.present if name in self.marks}
        self.settling.keep(self.present)
        self.model = self._champion(self.model)
        fresh = self._undone(found)
        due = self._in_turn([delivery for delivery in fresh if self.settling.is_settled(delivery)])
        busy = 0
        for batch in _batches(due, 2 * passes.n_workers() if self.shelf.mark else BATCH_FILES):
            alive = partial(heart.beat, "scoring", len(fresh)) if heart else _nothing
            alive()
            busy += self._batch(batch, alive)
        return Look(len(fresh) - len(due), busy)

    def sweep(self) -> None:
        """End what killed scorers began for files that are gone; remove what belongs to no entry."""
        entered: set[str] = set()
        for entry in self.shelf.ledger.entries():
            self._settle(entry)
            entered.update(part.file for part in entry.parts)
        for file in self.shelf.shown():
            label = None if file in entered else self.shelf.label(file)
            if label is not None and label.model == self.config.name:
                self._remove_orphan(file, label.source)
        self.shelf.sweep()

    def summary(self, seconds: float, *, waiting: int = 0) -> ScoreSummary:
        """What lies in the output for the files that are in the input now, and what this scorer did."""
        marks = [(name, self.marks[name]) for name in self.present if name in self.marks]
        faults = [SetAside(name=name, reason=mark.fault) for name, mark in marks if mark.fault is not None]
        n_parts = sum(mark.n_parts for _, mark in marks)
        return ScoreSummary(
            source=self.asked.input.path,
            n_files=len(self.present),
            n_rows=sum(mark.n_rows for _, mark in marks),
            rows_written=self.done.rows,
            n_parts=n_parts,
            parts_written=self.done.parts,
            parts_skipped=max(0, n_parts - self.done.parts),
            n_novel=sum(mark.n_novel for _, mark in marks),
            files_set_aside=len(faults),
            set_aside=tuple(faults[:LISTED]),
            files_waiting=waiting,
            output=self.shelf.address,
            model=str(self.registry.folder),
            version=self.model.version,
            seconds=seconds,
        )

    def _look_of_follower(self, heart: Heart) -> int:
        look = self.look(heart)
        if self.done.looks == 0:
            self.sweep()
        self.done.looks += 1
        return look.unsettled + look.busy

    def _in_turn(self, due: list[Delivery]) -> list[Delivery]:
        """In order of names; where others may have the same files in hand, not all from the same on."""
        first = zlib.crc32(self.shelf.mark.encode()) % max(1, len(due)) if self.shelf.mark else 0
        return due[first:] + due[:first]

    def _champion(self, before: Model | None = None) -> Model:
        """The version that scores from now on; opened anew only if it is another one than before."""
        if before is not None and before.version == self.registry.resolve():
            return before
        opened = self.registry.opened()
        memory = int(BASIS_SHARE * self.config.limits.memory)
        address = BasisAddress.of(self.registry.basis_path(opened.version), memory)
        return Model(opened.version, str(opened.manifest.get("fit")), opened.basis.n_components, address)

    def _undone(self, found: Sequence[Delivery]) -> list[Delivery]:
        """Those that must be looked into."""
        unknown = [delivery.name for delivery in found if delivery.name not in self.marks]
        for entry in self.shelf.ledger.read_all(unknown):
            if entry.fault is None and entry.is_settled:  # what was wrong may have passed
                self.marks[entry.name] = Mark.of(entry)
        return [delivery for delivery in found if not self._is_done(delivery)]

    def _is_done(self, delivery: Delivery) -> bool:
        mark = self.marks.get(delivery.name)
        if mark is None:
            return False
        if mark.fault is not None and time.time() - mark.at > RETRY_SECONDS:
            return False
        is_current = (mark.fit == self.model.fit and not mark.is_mixed) or (
            self.asked.on_new_version == "keep" and not mark.fault
        )
        return mark.stamp == delivery.stamp and is_current

    def _batch(self, files: Sequence[Delivery], alive: Callable[[], None]) -> int:
        """Score some files; returns how many of them others have in hand."""
        self.model = self._champion(self.model)
        # Somebody else may have entered them meanwhile.
        before = {file.name: self.marks.pop(file.name) for file in files if file.name in self.marks}
        batch = Batch(
            self.config,
            self.asked,
            self.model,
            self.shelf,
            self.reporter,
            partial(self._entered, before),
            self.is_strict,
            alive,
        )
        with self.shelf.ledger.claimed(file.name for file in files) as free, single_threaded_blas():
            batch.score(self._undone([file for file in files if file.name in free]))
        return batch.lost + sum(file.name not in free for file in files)

    def _entered(
        self, before: dict[str, Mark], delivery: Delivery, entry: Entry, new: tuple[ScoredPart, ...]
    ) -> None:
        self.marks[delivery.name] = Mark.of(entry)
        known = before.get(delivery.name)
        if entry.fault is None or known is None or known.fault != entry.fault:
            self.done.add(delivery, entry, new)

    def _settle(self, entry: Entry) -> None:
        if entry.is_settled:
            return
        with self.shelf.ledger.claimed([entry.name]) as free:
            found = self.shelf.ledger.read(entry.name) if free else None
            if found is not None:
                settle(self.shelf, found)

    def _remove_orphan(self, file: str, source: str) -> None:
        with self.shelf.ledger.claimed([source]) as free:
            entry = self.shelf.ledger.read(source) if free else None
            if free and (entry is None or file not in {part.file for part in entry.parts}):
                self.shelf.remove(file)


def _nothing() -> None:
    """Tell nobody."""


def _batches(due: Sequence[Delivery], n_files: int) -> Iterator[list[Delivery]]:
    """Files that are claimed together: some for each worker, and few where they are large."""
    batch: list[Delivery] = []
    for delivery in due:
        batch.append(delivery)
        is_large = sum(one.size for one in batch) >= BATCH_BYTES and len(batch) >= 2 * passes.n_workers()
        if is_large or len(batch) == n_files:
            yield batch
            batch = []
    if batch:
        yield batch
