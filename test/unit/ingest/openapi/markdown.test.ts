import { describe, expect, it } from 'vitest'
import { escaped, lineHtml, markdownHtml } from '../../../../services/ingest/openapi/markdown.ts'

describe('Markdown as HTML', () => {
  it.each([
    ['one\ntwo\n\nthree', '<p>one two</p>\n<p>three</p>'],
    ['# A `b`', '<h2 id="a-b">A <code>b</code></h2>'],
    ['## A\nb', '<h2 id="a">A</h2><p>b</p>'],
    ['### Of Ä & B', '<h3 id="of-b">Of Ä &amp; B</h3>'],
    ['a\n\n    b <\n      c',
      '<p>a</p>\n<pre class="code" tabindex="0"><code>b &lt;\n  c</code></pre>'],
    ['- a\n  b\n- c', '<ul><li>a b</li><li>c</li></ul>'],
    ['| a | b |\n|---|---|\n| `c` | d \\| e |',
      '<div class="scroll" tabindex="0" role="group" aria-label="a, b">' +
      '<table><thead><tr><th>a</th><th>b</th></tr></thead>' +
      '<tbody><tr><td><code>c</code></td><td>d | e</td></tr></tbody></table></div>'],
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
