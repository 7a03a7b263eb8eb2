import type { Visitor } from '../context.ts'
import { html, type Html } from '../html.ts'
import { plainPage } from '../layout.ts'
import type { Fault } from '../page-fault.ts'

type About = { readonly requestId: string, readonly visitor: Visitor | undefined }

/** Why there is no page, and where to go from here. */
export function failureView (fault: Fault, { requestId, visitor }: About): Html {
  return plainPage({
    title: fault.title,
    body: html`
      <div class="narrow">
        <h1>${fault.title}</h1>
        <p>${fault.message}</p>
        ${fault.status >= 500 && html`<p class="hint">Number: <code>${requestId}</code></p>`}
        <p><a class="button" href="/">${visitor === undefined
          ? 'Go to the start'
          : 'Go to the overview'}</a></p>
      </div>`,
  })
}
