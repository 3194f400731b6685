import django.db.models.deletion
from django.db import migrations, models

# The answers that were published before.
FILL = """
    INSERT INTO run_document (run_id, document_id, at)
    SELECT DISTINCT run.id, left(source ->> 'documentId', 200), run.finished_at
    FROM diagnosis_run run, jsonb_array_elements(run.published_result -> 'sourceDocuments') source
    WHERE run.rehearsal IS NULL
    ON CONFLICT DO NOTHING
"""


class Migration(migrations.Migration):

    dependencies = [
        ('runs', '0009_feedback'),
    ]

    operations = [
        migrations.CreateModel(
            name='RunDocument',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('document_id', models.CharField(max_length=200)),
                ('at', models.DateTimeField()),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='documents_cited', to='runs.diagnosisrun')),
            ],
            options={
                'db_table': 'run_document',
                'indexes': [models.Index(fields=['document_id', '-at'], name='idx_run_document_at')],
                'constraints': [models.UniqueConstraint(fields=('run', 'document_id'), name='run_document_once')],
            },
        ),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
    ]
