"""Says of runs that ended before it was kept whether their record is whole, as `audit.append` does at the end."""

from django.db import migrations

COMPLETE = """
UPDATE diagnosis_run AS run
SET record_complete = head.events >= told.events AND head.steps >= told.steps
    AND head.tool_invocations >= told.tool_invocations AND head.model_calls >= told.model_calls
FROM diagnosis_trace_head AS head, LATERAL (
    SELECT COALESCE(sum((counts.value ->> 'events')::bigint), 0) AS events,
           COALESCE(sum((counts.value ->> 'steps')::bigint), 0) AS steps,
           COALESCE(sum((counts.value ->> 'tool_invocations')::bigint), 0) AS tool_invocations,
           COALESCE(sum((counts.value ->> 'model_calls')::bigint), 0) AS model_calls
    FROM diagnosis_run AS emitting, jsonb_each(emitting.emitted) AS counts WHERE emitting.id = head.run_id
) AS told
WHERE run.id = head.run_id AND head.closed AND run.record_complete IS NULL
"""


class Migration(migrations.Migration):
    dependencies = [("audit", "0003_run_prompt"), ("runs", "0005_run_list")]

    operations = [migrations.RunSQL(COMPLETE, migrations.RunSQL.noop)]
