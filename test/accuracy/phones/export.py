"""Writes what Google's numbering data say about phone numbers, for test/accuracy/phones.ts.

    pip download --no-deps --dest WHEELS phonenumbers==9.0.43
    python3 export.py WHEELS/phonenumbers-9.0.43-py2.py3-none-any.whl > google.json

`phonenumbers` (Apache-2.0) is libphonenumber in Python, built from the same data for each release.
Rows: the example number of each region and type, and numbers of random last digits.
"""
import json
import random
import sys

sys.path.insert(0, sys.argv[1])

import phonenumbers as google  # noqa: E402
from phonenumbers import carrier, geocoder, timezone  # noqa: E402

TYPES = {value: name for name, value in vars(google.PhoneNumberType).items() if name.isupper()}
RANDOM_ROWS = 6_000
draw = random.Random(1)


def row(number, kind):
    e164 = google.format_number(number, google.PhoneNumberFormat.E164)
    valid = google.is_valid_number(number)
    region = google.region_code_for_number(number) or ''
    place = geocoder.description_for_number(number, 'en') if valid else ''
    country = geocoder.country_name_for_number(number, 'en')
    zones = timezone.time_zones_for_number(number) if valid else ()
    return [
        kind, e164, '' if region == '001' else region,
        TYPES[google.number_type(number)], valid,
        google.format_number(number, google.PhoneNumberFormat.NATIONAL),
        google.format_number(number, google.PhoneNumberFormat.INTERNATIONAL),
        carrier.name_for_number(number, 'en') if valid else '',
        '' if place == country else place,
        zones[0] if len(zones) == 1 and zones[0] != timezone.UNKNOWN_TIMEZONE else '',
    ]


def examples():
    for region in sorted(google.SUPPORTED_REGIONS):
        for kind in sorted(TYPES):
            number = google.example_number_for_type(region, kind)
            if number is not None:
                yield number
    for code in sorted(google.COUNTRY_CODES_FOR_NON_GEO_REGIONS):
        yield google.example_number_for_non_geo_entity(code)


def changed(number):
    national = google.national_significant_number(number)
    digits = draw.randint(1, min(6, len(national) - 2))
    tail = ''.join(draw.choice('0123456789') for _ in range(digits))
    text = f'+{number.country_code}{national[:-digits]}{tail}'
    return google.parse(text)


numbers = list({google.format_number(number, google.PhoneNumberFormat.E164): number
                for number in examples()}.values())
rows = [row(number, 'example') for number in numbers]
seen = {entry[1] for entry in rows}
while len(rows) < len(numbers) + RANDOM_ROWS:
    number = changed(draw.choice(numbers))
    entry = row(number, 'range')
    if entry[1] not in seen:
        seen.add(entry[1])
        rows.append(entry)

print('{')
print('"source": ' + json.dumps(
    f'phonenumbers {google.__version__} (Python port of libphonenumber, Apache-2.0)') + ',')
print('"columns": ["kind", "e164", "country", "type", "valid", "national", "international", '
      '"carrier", "place", "timezone"],')
print('"rows": [')
print(',\n'.join(json.dumps(entry, ensure_ascii=False) for entry in rows))
print(']}')
