"""Runs: consecutive statements of tensor work that become one region.

A run has no side effect before its last step: assignments of material, ended by at most one in-place
write or return. It is trimmed to the statements that matter.
"""

from __future__ import annotations

import ast

from ..frontend.lowering import RegionCode, RegionLowerer
from ..frontend.regions import Classifier, Kind
from ..frontend.source import copy_tree
from ..ops import registry
from .former import UNREADABLE, Former, Relower, SiteKey, at, site_key


class RunFormer(Former):
    """Forms the runs of statement lists."""

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Form the regions of a statement list."""
        out: list[ast.stmt] = []
        run: list[ast.stmt] = []
        defined: set[str] = set()
        for statement in body:
            role = None if self._may_be_unbound(statement, defined) else self._role(statement)
            if role is None:
                self._flush(run, out)
                defined.clear()
                out.append(self.statement(statement))
                continue
            run.append(statement)
            if isinstance(statement, ast.Assign | ast.AugAssign):
                target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
                if isinstance(target, ast.Name):
                    defined.add(target.id)
                    self.bound.add(target.id)
            if role == "last":
                self._flush(run, out)
                defined.clear()
        self._flush(run, out)
        return out

    def _role(self, statement: ast.stmt) -> str | None:
        """ "inner": may stand anywhere in a run; "last": ends it; None: no member."""
        info = self.classifier.info
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            value = info(statement.value)
            if value is None:
                return None
            target = statement.targets[0]
            if isinstance(target, ast.Name):
                return "inner" if self._plain_name(target.id) else None
            return "last" if isinstance(target, ast.Subscript) and self._store_target(target, value.candidates) else None
        if isinstance(statement, ast.AugAssign):
            return "last" if self._augmented_member(statement) else None
        if isinstance(statement, ast.Return) and statement.value is not None:
            value = info(statement.value)
            return "last" if value is not None and value.candidates else None
        return None

    def _plain_name(self, name: str) -> bool:
        return not (self.context.namespace_scope and name == "_")

    def _store_target(self, target: ast.Subscript, candidates: int) -> bool:
        info = self.classifier.info
        if not isinstance(target.value, ast.Name) or info(target.slice) is None:
            return False
        kind = self.classifier.kind_of_name(target.value.id)
        if kind is Kind.PYTHON or (kind is Kind.UNKNOWN and not candidates and not isinstance(target.slice, ast.Slice | ast.Tuple)):
            return False
        return info(_read_name(target.value)) is not None

    def _augmented_member(self, statement: ast.AugAssign) -> bool:
        value = self.classifier.info(statement.value)
        row = registry.by_operator(type(statement.op).__name__)
        if value is None or row is None or row.fuse != "elementwise" or isinstance(statement.value, ast.List | ast.Tuple):
            return False
        if isinstance(statement.target, ast.Name):
            kind = self.classifier.kind_of_name(statement.target.id)
            return not (kind is Kind.PYTHON and value.kind is Kind.PYTHON)
        return isinstance(statement.target, ast.Subscript) and self._store_target(statement.target, value.candidates + 1)

    def _candidates(self, statement: ast.stmt) -> int:
        if isinstance(statement, ast.AugAssign) or (isinstance(statement, ast.Assign) and not isinstance(statement.targets[0], ast.Name)):
            return 1
        info = self.classifier.info(statement.value)  # type: ignore[attr-defined]
        return 0 if info is None else info.candidates

    def _flush(self, run: list[ast.stmt], out: list[ast.stmt]) -> None:
        """Emit a run: trimmed to the statements that matter, as one region."""
        statements = list(run)
        run.clear()
        trailing: list[ast.stmt] = []
        while statements and not self._candidates(statements[0]):
            out.append(statements.pop(0))
        while statements and not self._candidates(statements[-1]):
            trailing.insert(0, statements.pop())
        if statements:
            self._emit_run(statements, out)
        out += trailing

    def _emit_run(self, statements: list[ast.stmt], out: list[ast.stmt]) -> None:
        last = statements[-1]
        if isinstance(last, ast.Return):
            if len(statements) == 1:
                out.append(self.statement(last))
                return
            assigned = [n for s in statements[:-1] for n in _assigned(s)]
            capture = assigned[0] if assigned and all(self._free_to_capture(n) for n in assigned) else None
            if capture is None:
                self._emit_run(statements[:-1], out)
                out.append(self.statement(last))
                return
        else:
            capture = None
        key = site_key("run", statements[0], last)
        if key in self.context.factory.dead:
            out += statements
            return
        code = self._lower(statements, self.classifier, None if capture is not None else self._outputs(statements))
        if code is None:
            out += [self.statement(s) for s in statements]
            return
        out.append(self._emit(statements, code, key, capture))

    def _free_to_capture(self, name: str) -> bool:
        return name not in self.observable and not self.reads_frame and not self.context.namespace_scope

    def _outputs(self, statements: list[ast.stmt]) -> tuple[str, ...]:
        names = list(dict.fromkeys(n for s in statements for n in _assigned(s)))
        return tuple(n for n in names if self._needed(n, statements)) or tuple(names[-1:])

    def _needed(self, name: str, statements: list[ast.stmt]) -> bool:
        """Flow-insensitive: may the frame or anyone else see this store?"""
        scope = self.scope
        if self.context.namespace_scope or self.reads_frame or name in self.observable or name in scope.params:
            return True
        return scope.stores[name] != 1 or scope.reads_outside(name, statements)

    def _lower(self, statements: list[ast.stmt], classifier: Classifier, outputs: tuple[str, ...] | None) -> RegionCode | None:
        """The region of these statements, which binds `outputs`; None: its value is that of the last one."""
        lowerer = RegionLowerer(classifier, self.context.name, self.context.filename, self.context.hints)
        value: int | None = None
        for statement in statements:
            value = lowerer.statement(statement)
        return lowerer.finish(statements, outputs or (), value if outputs is None else None)

    def _emit(self, statements: list[ast.stmt], code: RegionCode, key: SiteKey, capture: str | None) -> ast.stmt:
        """The region and, where it gives None, the statements.

        Globals and cells may have been deleted since. A region reads all its names first, so that error would
        come too early: then, too, the statements run, outside the `try`, and raise it where it belongs.
        """
        first, last = statements[0], statements[-1]
        if not self._reads_outer_names(code):
            return self._emit_match(statements, code, key, capture, statements, at(ast.Pass(), last))
        match = self._emit_match(statements, code, key, capture, [at(ast.Pass(), first)], at(ast.Break(), last))
        unreadable = at(ast.Constant(UNREADABLE), first)
        handler = at(ast.ExceptHandler(unreadable, None, [at(ast.Pass(), first)]), first)
        attempt = at(ast.Try([match], [handler], [], []), first)
        leave = [] if isinstance(last, ast.Return) else [at(ast.Break(), last)]
        return at(ast.While(at(ast.Constant(True), first), [attempt, *statements, *leave], []), first)

    def _reads_outer_names(self, code: RegionCode) -> bool:
        nodes = (*code.input_nodes, *code.callable_nodes)
        names = {n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name)}
        return not all(self.classifier.is_local(name) for name in names)

    def _emit_match(
        self, statements: list[ast.stmt], code: RegionCode, key: SiteKey, capture: str | None, otherwise: list[ast.stmt], done: ast.stmt
    ) -> ast.stmt:
        """`match` on the region: `otherwise` where it gives None; its outputs are bound, then `done`."""
        first, last = statements[0], statements[-1]
        originals = [copy_tree(s) for s in statements]
        relower = self._relower_run(originals, None if capture is not None else code.outputs)
        call = self._call(self.context.factory.region(key, code, relower), code, first)
        body: list[ast.stmt] = [done]
        pattern: ast.pattern
        if capture is not None:
            pattern = ast.MatchAs(name=capture)
            body = [at(ast.Return(at(ast.Name(capture, ast.Load()), last)), last)]
        elif len(code.outputs) == 1:
            pattern = ast.MatchAs(name=code.outputs[0])
        else:
            pattern = ast.MatchSequence([at(ast.MatchAs(name=n), last) for n in code.outputs])
        cases = [
            ast.match_case(at(ast.MatchSingleton(None), first), None, otherwise),
            ast.match_case(at(pattern, last), None, body),
        ]
        return at(ast.Match(call, cases), first)

    def _relower_run(self, originals: list[ast.stmt], outputs: tuple[str, ...] | None) -> Relower:
        """`outputs` as the first lowering found them: what may be left out is told by the statements themselves, not by copies."""

        def relower(personality: str) -> RegionCode | None:
            statements = [copy_tree(s) for s in originals]
            classifier = self._classifier(personality)
            for statement in statements:
                value = getattr(statement, "value", None)
                if classifier.info(value) is None:  # type: ignore[arg-type]
                    return None
                for target in getattr(statement, "targets", [getattr(statement, "target", None)]):
                    if isinstance(target, ast.Subscript):
                        classifier.info(target.slice)
            return self._lower(statements, classifier, outputs)

        return relower


def _read_name(node: ast.Name) -> ast.Name:
    return at(ast.Name(node.id, ast.Load()), node)


def _assigned(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.Assign):
        return [t.id for t in statement.targets if isinstance(t, ast.Name)]
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        return [statement.target.id]
    return []
