import { expect, it } from 'vitest'
import { canonicalPhone } from '../../../services/normalize/canonical.ts'
import { readExtension, readVanity } from '../../../services/phone/cell.ts'

const outcome = (input: string, country?: string) => {
  const result = canonicalPhone(input, country)
  return result.ok ? result.canonical : result.reason
}

const BERLIN = '+4930901820'
const NO_NUMBER = 'not_a_phone_number'

const CELLS: readonly (readonly [input: string, country: string | undefined, outcome: string])[] = [
  // Fractions of spreadsheets.
  ['4930901820.0', 'DE', BERLIN], ['+4930901820.0', 'DE', BERLIN], ['030 901820.0', 'DE', BERLIN],
  ['4930901820.00', 'DE', BERLIN], ['4930901820,0', 'DE', BERLIN], [' 30901820.0 ', 'DE', BERLIN],
  ['4.930.901.820,00', 'DE', BERLIN], ['4,930,901,820.00', 'DE', BERLIN],
  ['436641234567.0', 'AT', '+436641234567'], ['0463285968.0', 'AT', '+43463285968'],
  ['4930901820.5', 'DE', NO_NUMBER], ['030901820.25', 'DE', NO_NUMBER],
  ['01.42.68.53.00', 'FR', '+33142685300'], ['030.901820', 'DE', BERLIN],
  ['4.930901820E9', 'DE', BERLIN], ['4,93E+10', 'DE', NO_NUMBER], ['4.93E+09', 'DE', NO_NUMBER],
  ['="030901820"', 'DE', BERLIN], ['\'030901820', 'DE', BERLIN], ['=+4930901820', 'DE', BERLIN],
  // Digits and marks.
  ['+49 30 901820\u00b2', 'DE', BERLIN], ['+49 30 901820 \u2460', 'DE', BERLIN],
  ['\u246003-1234-5678', 'JP', '+81312345678'], ['+49 30 90\u00b21820', 'DE', NO_NUMBER],
  ['\u096f\u096e\u096d\u096c\u096b \u096a\u0969\u0968\u0967\u0966', 'IN', '+919876543210'],
  ['+49 30 123456 \u096d\u096e', undefined, '+493012345678'],
  ['030 901820 [1]', 'DE', BERLIN], ['1. 030 901820', 'DE', BERLIN],
  ['2) 030 901820', 'DE', BERLIN],
  // IP addresses, with a port or a mask too.
  ['192.168.1.100', 'AT', NO_NUMBER], ['127.0.0.1', 'AT', NO_NUMBER],
  ['10.0.0.0/8', 'DE', NO_NUMBER], ['172.16.254.1:8080', 'FR', NO_NUMBER],
  ['255.255.255.0', 'JP', NO_NUMBER], ['IP: 192.168.1.100', 'DE', NO_NUMBER],
  ['8.8.8.8', 'DE', NO_NUMBER], ['192.168.1.100', undefined, NO_NUMBER],
  ['33.12.34.56', 'DK', '+4533123456'], ['91.123.45.67', 'ES', '+34911234567'],
  ['0.55.51.35', 'PM', '+508555135'], ['10.20.30.40', 'DK', '+4510203040'],
  ['91.123.45.67', undefined, 'no_calling_code'],
  // International prefixes.
  ['+0044 7911 123456', 'GB', '+447911123456'], ['004930901820', 'US', BERLIN],
  ['0055 81 98590-2279', 'BR', '+5581985902279'], ['+011 49 30 901820', undefined, BERLIN],
  ['++49 30 901820', undefined, BERLIN], ['+ +49 30 901820', undefined, BERLIN],
  ['00+49 30 901820', 'DE', BERLIN], ['+49 +49 30 901820', 'DE', BERLIN],
  ['+49 0049 30 901820', 'DE', BERLIN], ['0011744486', 'AG', '+10011744486'],
  ['+10011744486', undefined, '+10011744486'], ['plus 49 30 901820', 'US', BERLIN],
  ['+49 (0)30 901820', undefined, BERLIN], ['+34 (0)91 123 45 67', 'FR', '+34911234567'],
  ['+39 (0)6 69812345', undefined, '+390669812345'],
  // 011 is the area code of these cities; without groups it may also be an international prefix.
  ['011 4951-2345', 'AR', '+541149512345'], ['011 4312-3456', 'AR', '+541143123456'],
  ['011 4312-3456', 'IN', '+911143123456'], ['(011) 4951-2345', 'BR', '+551149512345'],
  ['011 493 0123', 'ZA', '+27114930123'], ['0113 524 8632', 'GB', '+441135248632'],
  ['011 4312345', 'IT', '+390114312345'], ['011 390 12345', 'IT', '+3901139012345'],
  ['01149512345', 'AR', 'ambiguous_number'], ['01139012345', 'IT', 'ambiguous_number'],
  ['011 247 62889', 'IT', 'ambiguous_number'], ['011 4952 3456', 'US', '+49523456'],
  ['011 62839 27634792', 'CN', 'ambiguous_number'],
  ['011 49 30 901820', 'AR', BERLIN], ['011 44 7911 123456', 'ZA', '+447911123456'],
  // Prefixes of calls within a country, which numbers from abroad do not have.
  ['+34 0612 34 56 78', 'ES', '+34612345678'], ['+48 0 601 234 567', undefined, '+48601234567'],
  ['0039 0347 1234567', 'DE', '+393471234567'], ['+39 06 69812345', undefined, '+390669812345'],
  ['+52 1 55 1234 5678', undefined, '+525512345678'], ['5215512345678', 'MX', '+525512345678'],
  ['+56 (0)9 8765 4321', undefined, '+56987654321'],
  // Prefixes that a country has given up.
  ['044 55 1234 5678', 'MX', '+525512345678'], ['045 222 123 4567', 'MX', '+522221234567'],
  ['01 55 1234 5678', 'MX', '+525512345678'], ['+52 044 55 1234 5678', 'US', '+525512345678'],
  ['+52 (01) 55 1234 5678', undefined, '+525512345678'],
  ['011 376 312 345', 'MX', '+376312345'], ['044 55 1234 5678', 'US', 'too_long'],
  ['8-044-279-01-23', 'UA', '+380442790123'], ['8 (095) 123-45-67', 'UA', '+380951234567'],
  ['8 044 279 01 23', 'PL', 'too_long'],
  ['+480000000000', undefined, '+480000000000'],
  ['0601 234 567', 'PL', 'ambiguous_number'], ['0347 1234567', 'IT', 'ambiguous_number'],
  ['(0)601 234 567', 'PL', '+48601234567'],
  // Plans that were replaced.
  ['+55 81 8590-2279', undefined, '+5581985902279'], ['(31) 9876-5432', 'BR', '+5531998765432'],
  ['558185902279', 'BR', '+5581985902279'], ['(11) 3456-7890', 'BR', '+551134567890'],
  ['+55 (0xx11) 98765-4321', undefined, '+5511987654321'],
  ['+54 9 (0351) 15 512 3456', undefined, '+5493515123456'],
  ['+54 9 0351 512-3456', 'AR', '+5493515123456'],
  ['(0xx11) 3456-7890', 'BR', '+551134567890'], ['+549 11 15 2345 6789', 'AR', '+5491123456789'],
  ['+84 169 123 4567', undefined, '+84391234567'],
  ...[
    [120, 70], [121, 79], [122, 77], [123, 83], [124, 84], [125, 85], [126, 76], [127, 81],
    [128, 78], [129, 82], [162, 32], [163, 33], [164, 34], [165, 35], [166, 36], [167, 37],
    [168, 38], [169, 39], [186, 56], [188, 58], [199, 59],
  ].map(([before, now]) => [`0${before} 234 5678`, 'VN', `+84${now}2345678`] as const),
  ['(04) 3822 1234', 'VN', '+842438221234'], ['091 234 5678', 'VN', '+84912345678'],
  ['+57 1 2345678', undefined, '+576012345678'], ['(4) 444 1234', 'CO', '+576044441234'],
  ['97 12 34 56', 'BJ', '+2290197123456'], ['+229 97 12 34 56', 'FR', '+2290197123456'],
  ['07 12 34 56', 'CI', '+2250707123456'], ['+225 05 12 34 56', undefined, '+2250505123456'],
  ['44 12 34 56', 'CI', '+2250544123456'], ['41 12 34 56', 'CI', '+2250141123456'],
  // The zero of a landline, which is a part of it in Italy.
  ['+39 6 69812345', undefined, '+390669812345'], ['212345678', 'IT', '+390212345678'],
  ['39 2 12345678', 'IT', '+390212345678'], ['24762889', 'IT', 'ambiguous_number'],
  ['347123456', 'IT', '+39347123456'], ['(06) 69812345', 'IT', '+390669812345'],
  ['(01) 25347688', 'IT', '+390125347688'],
  // Within France its parts overseas have no calling codes; Ireland dials 048 for the North.
  ['0692123456', 'FR', '+262692123456'], ['06 39 12 34 56', 'YT', '+262639123456'],
  ['+33 6 90 33 59 41', undefined, '+590690335941'], ['0694 20 12 34', 'FR', '+594694201234'],
  ['0596 71 12 34', 'FR', '+596596711234'], ['0269 61 12 34', 'FR', '+262269611234'],
  ['06 12 34 56 78', 'RE', '+33612345678'], ['01 42 68 53 00', 'MQ', '+33142685300'],
  ['0596 71 12 34', 'RE', '+596596711234'], ['007 525621552', 'GP', 'too_short'],
  ['0692123456', 'RE', '+262692123456'], ['+262 612 34 56 78', 'FR', '+262612345678'],
  ['048 9024 6609', 'IE', '+442890246609'],
  // Several numbers with words between.
  ['Fax: 212-736-5001 Phone: 212-736-5000', 'US', 'several_numbers'],
  ['Fax: 212-736-5001 Tel: 212-736-5000', 'US', 'several_numbers'],
  ['06 12 34 56 78 ou bureau 01 42 68 53 00', 'FR', 'several_numbers'],
  ['030 901820 Fax 030 901821', 'DE', 'several_numbers'],
  ['212-736-5000 same 212-736-5000', 'US', '+12127365000'],
  // Links, ids and properties.
  ['wa.me/4930901820', 'US', BERLIN], ['https://wa.me/4930901820?text=hi', 'US', BERLIN],
  ['https://api.whatsapp.com/send?phone=4930901820&text=x', 'US', BERLIN],
  ['whatsapp://send?phone=4930901820', undefined, BERLIN],
  ['4930901820@c.us', undefined, BERLIN], ['4930901820@s.whatsapp.net', undefined, BERLIN],
  ['4930901820@example.org', 'DE', NO_NUMBER], ['https://example.org/4930901820', 'DE', NO_NUMBER],
  ['item1.TEL;type=CELL;type=pref:+49 30 901820', undefined, BERLIN],
  ['TEL;VALUE=uri:tel:+49-30-901820;ext=5', undefined, BERLIN],
  ['<a href="tel:+4930901820">030 901820</a>', 'DE', BERLIN],
  ['(010)62345678\u8f6c123', 'CN', '+861062345678'],
  // Letters.
  ['1-800-GO-FEDEX', 'US', '+18004633339'], ['1-800-FLOWERS', 'US', '+18003569377'],
  ['0800 CALL NOW', 'DE', NO_NUMBER], ['0800 REIMANN', 'DE', '+498007346266'],
  ['030 9O1820', 'DE', NO_NUMBER], ['+49 3O 901820', 'DE', NO_NUMBER],
  ['030 901820 (home)', 'DE', BERLIN], ['030 901820 privat', 'DE', BERLIN],
  ['030 901820 24/7', 'DE', BERLIN], ['Tel.: 030 901820', 'DE', BERLIN],
  ['030 901820 24h', 'DE', 'ambiguous_number'],
  ['2 030 901820', 'DE', 'ambiguous_number'], ['Tel 2 030 901820', 'DE', 'ambiguous_number'],
  ['1 06 12 34 56 78', 'FR', '+33612345678'], ['8 029 123 45 67', 'BY', '+375291234567'],
  ['(212) 736-5000 Mo-Fr 9-17', 'US', '+12127365000'],
  // Two readings.
  ['4921123456', 'DE', 'ambiguous_number'], ['447911123456', 'DE', 'ambiguous_number'],
  ['44 20 7946 0958', 'DE', 'ambiguous_number'], ['+8 495 123 45 67', 'RU', 'ambiguous_number'],
  ['15123456789', 'DE', '+4915123456789'],
  // A lost plus: with the zero of a landline they would have more digits than any number.
  ['4915112345678', 'DE', '+4915112345678'], ['491711234567', 'DE', '+491711234567'],
  ['49 151 12345678', 'DE', '+4915112345678'], ['492112345678', 'DE', '+492112345678'],
  ['38343201234', 'XK', '+38343201234'], ['921123456', 'DE', '+49921123456'],
  ['030 901820 / 030 901821', 'DE', 'several_numbers'], ['030 901820/21', 'DE', 'several_numbers'],
  ['030 901820 oder 030 901821', 'DE', 'several_numbers'], ['030/901820', 'DE', BERLIN],
  ['030 901820 / 030 901820', 'DE', BERLIN],
  // Usual formats, and what only resembles them.
  [' (212) 736-5000 ', 'US', '+12127365000'], ['442079460958', 'GB', '+442079460958'],
  ['444000000000', 'GB', '+444000000000'], ['0 11 15-2345-6789', 'AR', '+5491123456789'],
  ['2345678', 'VI', '+13402345678'], ['88005553535', 'RU', '+78005553535'],
  ['8005553535', 'RU', '+78005553535'], ['0311123456789', 'BR', '+551123456789'],
  ['08001111', 'JE', '+448001111'], ['0669812345', 'IT', '+390669812345'],
  ['01', 'DE', 'too_short'], ['call me 12', 'US', NO_NUMBER], ['1+2127365000', 'US', 'too_short'],
  ['+999123456', undefined, 'unknown_calling_code'], ['(+49) 30 901820', undefined, BERLIN],
  // Words are left out only before an assigned number, or one with a plus.
  ['Order 12345', 'DE', NO_NUMBER], ['Tel. 12 345', 'DE', NO_NUMBER],
  ['12345', 'DE', '+4912345'], ['Order 030 901820', 'DE', BERLIN],
  ['Jane +44 7700 900123', 'GB', '+447700900123'],
  ['p: (+1) 555 010 9999', undefined, '+15550109999'],
  ['BBB 4099', 'NU', NO_NUMBER], ['2. 030 901820', 'DE', BERLIN], [' - ', 'US', NO_NUMBER],
  ['office: 212 736 5000', 'US', '+12127365000'],
  [`+1 212 736 ${' '.repeat(40)} 5000`, undefined, '+12127365000'],
  // Of the plan.
  ['310-1234', 'CA', '+13101234'], ['2024-01-15', 'DE', NO_NUMBER],
  ['12/05/1990', 'DE', NO_NUMBER], ['5/12/1990', 'DE', NO_NUMBER], ['12:30', 'DE', NO_NUMBER],
  ['2023/01/02', 'IT', NO_NUMBER], ['01.02.2023 10:30', 'DE', NO_NUMBER],
  ['2023-01-02T10:30:00', 'IT', NO_NUMBER], ['12/30/1990 9:05:00', 'DE', NO_NUMBER],
  ['030/12/1990', 'DE', '+4930121990'],
  // URIs.
  ['tel:791234567;phone-context=+41', undefined, '+41791234567'],
  ['tel:030901820;phone-context=example.org', 'DE', BERLIN],
  ['tel:030901820;phone-context=+', 'DE', NO_NUMBER], ['%2B4930901820', 'US', BERLIN],
  ['4930901820@example.org', 'DE', NO_NUMBER],
]

it.each(CELLS)('a cell of a phone number %j in %s is read as %s', (input, country, expected) => {
  expect(outcome(input, country)).toBe(expected)
})

it.each([
  ['212 736 5000 x12', '+12127365000', '12'],
  ['212-736-5000 ext. 5', '+12127365000', '5'],
  ['tel:+1-212-736-5000;ext=12', '+12127365000', '12'],
  ['212-736-5000,,77', '+12127365000', '77'],
  ['212-736-5000 12#', '+12127365000', '12'],
  ['212-736-5000 (ext 5)', '+12127365000', '5'],
  ['030 901820 Durchwahl 15', BERLIN, '15'],
  ['+7 495 123-45-67 \u0434\u043e\u0431. 12', '+74951234567', '12'],
  ['030 901820', BERLIN, ''],
  ['4930901820,00', BERLIN, ''],
  ['4,930,901,820', BERLIN, ''],
  ['Fax 030 901820', BERLIN, ''],
  ['call me x12', '', ''],
])('the extension of a cell %j of %j is %j', (input, e164, extension) => {
  expect(readExtension(input, e164)).toBe(extension)
})

it.each([
  ['1-800-GO-FEDEX', '+18004633339', '1-800-GO-FEDEX'],
  ['1-800-FLOWERS', '+18003569377', '1-800-FLOWERS'],
  ['tel: 1-800-Flowers', '+18003569377', '1-800-FLOWERS'],
  ['+1 (800) FLOWERS', '+18003569377', '+1 (800) FLOWERS'],
  ['1-800-FLOWERS x12', '+18003569377', '1-800-FLOWERS'],
  ['0800 REIMANN', '+498007346266', '0800 REIMANN'],
  ['1-800-FLO-9377', '+18003569377', '1-800-FLO-9377'],
  ['+18003569377', '+18003569377', ''],
  ['212 736 5000 x12', '+12127365000', ''],
  ['212 736 5000 call me', '+12127365000', ''],
  ['212 736 5000 24h', '+12127365000', ''],
  ['2I2 736 5OOO', '+12127365000', ''],
  ['1-800-FLOWERS', '+18003569378', ''],
  ['1-800-FLOWERS', '', ''],
  ['FLOWERS', '+18003569377', ''],
])('the spelled number of a cell %j of %j is %j', (input, e164, vanity) => {
  expect(readVanity(input, e164)).toBe(vanity)
})
