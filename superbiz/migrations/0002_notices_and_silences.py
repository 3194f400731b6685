from django.db import migrations

from superbiz.groups import AUDITORS, OPERATORS, grant

SEE = ["runs.runnotice.view_runnotice", "runs.alertsilence.view_alertsilence"]


def make_groups(apps, _schema_editor):
    grant(apps, {OPERATORS: SEE, AUDITORS: SEE})


class Migration(migrations.Migration):
    dependencies = [("superbiz", "0001_groups"), ("runs", "0007_alert_silences_and_notices")]

    operations = [migrations.RunPython(make_groups, migrations.RunPython.noop)]
