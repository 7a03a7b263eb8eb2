import { html, type Html } from '../html.ts'
import { plainPage } from '../layout.ts'

/** How to come in. */
export function signInView (notice: Html | undefined): Html {
  return plainPage({
    title: 'Sign in',
    body: html`
      <div class="narrow">
        <h1>Sign in</h1>
        ${notice}
        <p>Sign-in takes a link that works once, for ten minutes. Ask whoever runs this
          installation for one; they make it with:</p>
        <pre><code>npm run workspace -- sign-in --org ORG_ID</code></pre>
        <p class="hint">Those who run the pipeline take <code>--operator</code> instead of
          <code>--org ORG_ID</code>.</p>
      </div>`,
  })
}

/**
 * A link was opened: its code, which a script takes from the part behind the #, is used only when
 * somebody says so, not by a preview of the link.
 */
export function confirmSignInView (): Html {
  return plainPage({
    title: 'Sign in',
    scripts: ['sign-in.js'],
    body: html`
      <div class="narrow">
        <h1>Sign in</h1>
        <p>This link signs this browser in. It works once.</p>
        <form method="post" action="/sign-in">
          <input type="hidden" name="code" value="">
          <button class="button" type="submit" autofocus>Sign in</button>
        </form>
        <noscript><p>This page needs JavaScript to read the code of the link.</p></noscript>
      </div>`,
  })
}
