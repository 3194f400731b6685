from django.db import migrations

from superbiz.groups import AUDITORS, grant


def make_groups(apps, _schema_editor):
    grant(apps, {AUDITORS: ["admin.logentry.view_logentry"]})


class Migration(migrations.Migration):
    dependencies = [("superbiz", "0002_notices_and_silences"), ("admin", "0001_initial")]

    operations = [migrations.RunPython(make_groups, migrations.RunPython.noop)]
