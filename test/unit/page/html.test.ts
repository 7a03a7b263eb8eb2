import { describe, expect, it } from 'vitest'
import {
  count, html, money, share, signedMoney, time, parseZone,
} from '../../../services/page/html.ts'

describe('the html template', () => {
  it('escapes values in text and in attributes', () => {
    const evil = '"><script>alert(\'1\') & so on</script>'
    expect(html`<p title="${evil}">${evil}</p>`.html).toBe(
      '<p title="&quot;&gt;&lt;script&gt;alert(&#39;1&#39;) &amp; so on&lt;/script&gt;">' +
      '&quot;&gt;&lt;script&gt;alert(&#39;1&#39;) &amp; so on&lt;/script&gt;</p>')
  })

  it('inserts HTML unchanged, concatenates lists and omits absent values', () => {
    const list = ['<b>', html`<i>x</i>`, [1, 2]]
    expect(html`a${list}${false}${null}${undefined}${0}z`.html).toBe('a&lt;b&gt;<i>x</i>120z')
  })
})

describe('an amount of money', () => {
  it.each([
    [0, '$0.0000'], [1, '$0.000001'], [2_000, '$0.0020'], [500_000, '$0.5000'],
    [1_234_502_500, '$1,234.5025'], [-16_000, '−$0.0160'], [2_050, '$0.00205'],
    [999_999_999_999_999, '$999,999,999.999999'],
  ])('of %d micros is shown as %s', (micros, text) => expect(money(micros)).toBe(text))

  it('has a sign when it is a change', () => {
    expect([1, 0, -1].map(signedMoney)).toEqual(['+$0.000001', '$0.0000', '−$0.000001'])
  })
})

it('numbers on the page have separators, and shares have at most one decimal', () => {
  expect(count(1_234_567)).toBe('1,234,567')
  expect([share(1, 8), share(1, 2), share(0, 0), share(2, 3)])
    .toEqual(['12.5 %', '50 %', '0 %', '66.7 %'])
})

describe('a time on the page', () => {
  it('is in the zone of the viewer, with ISO 8601 in the title', () => {
    expect(time(Date.UTC(2026, 10, 21, 23, 47, 5), 'Asia/Kolkata').html)
      .toBe('<time datetime="2026-11-21T23:47:05.000Z" title="2026-11-21T23:47:05.000Z">' +
        '22 Nov 2026, 05:17:05</time>')
  })

  it('is in UTC for an unknown zone', () => {
    expect([undefined, '', '"><b>', 'Mars/Base', 'Europe/Berlin'].map(parseZone))
      .toEqual(['UTC', 'UTC', 'UTC', 'UTC', 'Europe/Berlin'])
  })
})
