"""The database refuses to change what was written: triggers, not habits.

`prune_ledger` alone lifts them, for its own transaction, by the setting named here.
"""

import pgtrigger

PRUNE_SETTING = "superbiz.prune"

_UNLESS_PRUNING = f"""
    IF TG_OP = 'DELETE' AND current_setting('{PRUNE_SETTING}', true) = 'on' THEN
        RETURN OLD;
    END IF;
"""


def append_only() -> pgtrigger.Trigger:
    """Refuses UPDATE and DELETE of any row."""
    return pgtrigger.Trigger(
        name="append_only",
        when=pgtrigger.Before,
        operation=pgtrigger.Update | pgtrigger.Delete,
        func=f"""
            {_UNLESS_PRUNING}
            RAISE EXCEPTION 'append-only: % of % is refused', TG_OP, TG_TABLE_NAME USING ERRCODE = 'raise_exception';
        """,
    )


def kept() -> pgtrigger.Trigger:
    """Refuses DELETE; for rows that move on while their run goes."""
    return pgtrigger.Trigger(
        name="kept",
        when=pgtrigger.Before,
        operation=pgtrigger.Delete,
        func=f"""
            {_UNLESS_PRUNING}
            RAISE EXCEPTION 'append-only: % of % is refused', TG_OP, TG_TABLE_NAME USING ERRCODE = 'raise_exception';
        """,
    )


def completed_once() -> pgtrigger.Trigger:
    """A step may be completed once: only from RUNNING, and what it was opened with stays."""
    return pgtrigger.Trigger(
        name="completed_once",
        when=pgtrigger.Before,
        operation=pgtrigger.Update | pgtrigger.Delete,
        func=f"""
            {_UNLESS_PRUNING}
            IF TG_OP = 'UPDATE' AND OLD.status = 'RUNNING' AND NEW.status IN ('COMPLETED', 'FAILED')
               AND (OLD.id, OLD.run_id, OLD.session_id, OLD.step_index, OLD.agent_name, OLD.role, OLD.model,
                    OLD.prompt_version, OLD.model_input, OLD.started_at)
                   IS NOT DISTINCT FROM
                   (NEW.id, NEW.run_id, NEW.session_id, NEW.step_index, NEW.agent_name, NEW.role, NEW.model,
                    NEW.prompt_version, NEW.model_input, NEW.started_at) THEN
                RETURN NEW;
            END IF;
            RAISE EXCEPTION 'append-only: % of % is refused', TG_OP, TG_TABLE_NAME USING ERRCODE = 'raise_exception';
        """,
    )


def no_truncate() -> pgtrigger.Trigger:
    return pgtrigger.Trigger(
        name="no_truncate",
        level=pgtrigger.Statement,
        when=pgtrigger.Before,
        operation=pgtrigger.Truncate,
        func="RAISE EXCEPTION 'append-only: TRUNCATE of % is refused', TG_TABLE_NAME;",
    )
