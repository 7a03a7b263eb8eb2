import { describe, expect, it } from 'vitest'
import { html } from '../../../../services/workspace/page/html.ts'

describe('html', () => {
  it('escapes what is put in, in text and in attributes', () => {
    const evil = '"><script>alert(\'1\') & so on</script>'
    expect(html`<p title="${evil}">${evil}</p>`.html).toBe(
      '<p title="&quot;&gt;&lt;script&gt;alert(&#39;1&#39;) &amp; so on&lt;/script&gt;">' +
      '&quot;&gt;&lt;script&gt;alert(&#39;1&#39;) &amp; so on&lt;/script&gt;</p>')
  })

  it('takes HTML as it is, joins lists and leaves out what is not there', () => {
    const list = ['<b>', html`<i>x</i>`, [1, 2]]
    expect(html`a${list}${false}${null}${undefined}${0}z`.html).toBe('a&lt;b&gt;<i>x</i>120z')
  })
})
