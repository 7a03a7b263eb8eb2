import { describe, expect, it } from 'vitest'
import { escaped, lineHtml, markdownHtml } from '../../../../services/ingest/openapi/markdown.ts'

describe('Markdown as HTML', () => {
  it.each([
    ['one\ntwo\n\nthree', '<p>one two</p>\n<p>three</p>'],
    ['# A `b`', '<h2>A <code>b</code></h2>'],
    ['## A\nb', '<h3>A</h3><p>b</p>'],
    ['- a\n  b\n- c', '<ul><li>a b</li><li>c</li></ul>'],
    ['| a | b |\n|---|---|\n| `c` | d \\| e |',
      '<table><thead><tr><th>a</th><th>b</th></tr></thead>' +
      '<tbody><tr><td><code>c</code></td><td>d | e</td></tr></tbody></table>'],
    ['<b> & "c"', '<p>&lt;b&gt; &amp; &quot;c&quot;</p>'],
  ])('%j', (text, html) => {
    expect(markdownHtml(text)).toBe(html)
  })

  it('links only what is on this host', () => {
    expect(lineHtml('[a](/docs) [b](https://x.example)'))
      .toBe('<a href="/docs">a</a> [b](https://x.example)')
    expect(lineHtml('[a](/x"y)')).toBe('<a href="/x&quot;y">a</a>')
    expect(escaped('<">&')).toBe('&lt;&quot;&gt;&amp;')
  })
})
