"""Prints the places, carriers and time zones of number ranges in a wheel of `phonenumbers`.

Usage: python3 read.py phonenumbers-VERSION-py2.py3-none-any.whl

A line of JSON, then for each kind its name and its ranges: prefix, tab, text in English.
"""
import json
import sys
import zipfile

sys.path.insert(0, sys.argv[1])

import phonenumbers  # noqa: E402
from phonenumbers.carrierdata import CARRIER_DATA  # noqa: E402
from phonenumbers.geodata import GEOCODE_DATA  # noqa: E402
from phonenumbers.tzdata import TIMEZONE_DATA  # noqa: E402

built = max(entry.date_time for entry in zipfile.ZipFile(sys.argv[1]).infolist())
print(json.dumps({
    'version': phonenumbers.__version__,
    'publishedAt': '%04d-%02d-%02d' % built[:3],
}))


def show(kind, texts):
    print('= ' + kind)
    for prefix, text in sorted(texts):
        if text:
            print(prefix + '\t' + text)


show('places', ((prefix, texts.get('en')) for prefix, texts in GEOCODE_DATA.items()))
show('carriers', ((prefix, texts.get('en')) for prefix, texts in CARRIER_DATA.items()))
show('timezones', ((prefix, '&'.join(zones)) for prefix, zones in TIMEZONE_DATA.items()))
