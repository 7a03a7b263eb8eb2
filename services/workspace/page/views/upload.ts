import type { Client } from '../../../client/client.ts'
import type { QuoteBody } from '../../../../schemas/api/quote.ts'
import type { Visit } from '../context.ts'
import { count, money } from '../format.ts'
import { html, type Html } from '../html.ts'
import { customerPage } from '../layout.ts'
import { emptyState } from './parts.ts'

type Service = Awaited<ReturnType<Client['services']>>[number]

/** Takes a file in four steps: file, column and service, quote, confirmation. */
export function uploadView (visit: Visit, services: readonly Service[]): Html {
  const { mode } = visit.tenant
  const usable = services.filter(({ configured }) => configured)
  return customerPage(visit, 'upload', {
    title: 'Verify a file',
    scripts: ['upload.js'],
    body: html`
      <h1>Verify a file</h1>
      ${usable.length === 0
        ? emptyState('No service is set up for this mode. Ask whoever runs this installation.')
        : html`
          <p class="hint">The file is read by your browser; only the column you choose is sent. The
            price is shown before anything is spent.</p>
          <form id="upload" class="card" data-mode="${mode}"
            data-token="${visit.visitor.session.token}">
            <label>CSV file <input type="file" name="file" accept=".csv,.tsv,.txt,text/csv"
              aria-describedby="file-hint" required></label>
            <p class="hint" id="file-hint">One contact a line, up to 100,000 lines, separated by
              comma, semicolon or tab.</p>
            <div id="chosen" hidden>${choices(usable)}</div>
            <p id="fault" class="notice bad" role="alert" hidden></p>
            <button id="ask" class="button" type="submit" disabled>Show the price</button>
          </form>
          <section id="quote" aria-labelledby="quote-title" hidden></section>`}
      <noscript><p class="notice bad">Reading a file needs JavaScript. Jobs can also be sent
        through the REST interface.</p></noscript>`,
  })
}

function choices (services: readonly Service[]): Html {
  return html`
    <label class="check"><input type="checkbox" name="header" checked> The first line names the
      columns</label>
    <div class="fields">
      <label>Column <select name="column"></select></label>
      <label>Service <select name="service">${services.map(({ slug, inputKind, priceMicros }) =>
        html`<option value="${slug}" data-kind="${inputKind}">${slug} (${money(priceMicros)} a
          row)</option>`)}</select></label>
      <label>Country
        <input name="country" maxlength="2" pattern="[A-Za-z]{2}" placeholder="US"
          autocomplete="off" aria-describedby="country-hint"></label>
    </div>
    <p class="hint" id="country-hint">The country, in two letters, is for numbers that do not begin
      with +.</p>
    <div class="table" id="sample" role="region" aria-label="First lines of the file" tabindex="0">
    </div>
    <details><summary>More</summary>
      <label>Webhook address, told when the job ends
        <input type="url" name="webhook" maxlength="2048" placeholder="https://"
          autocomplete="off"></label>
      <label class="check"><input type="checkbox" name="fresh"> Check every contact live, even if
        the cache knows it</label>
    </details>`
}

type Quoted = {
  readonly quote: QuoteBody
  readonly availableMicros: number
  readonly priceMicros: number
}

/** What a job would cost at most, and the button that starts it. */
export function quoteView ({ quote, availableMicros, priceMicros }: Quoted): Html {
  const { preflight, service } = quote
  const { totalRows, invalidRows, duplicateRows, cacheHits, freshChecks } = preflight
  const line = (name: string, rows: number, price: string) => html`<tr>
    <th scope="row">${name}</th><td class="number">${count(rows)}</td>
    <td class="number">${price}</td></tr>`
  const isEnough = preflight.maxQuoteMicros <= availableMicros
  return html`
    <h2 id="quote-title" tabindex="-1">At most ${money(preflight.maxQuoteMicros)}</h2>
    <table>
      <caption class="unseen">Quote for ${service}</caption>
      <thead><tr><th scope="col">Rows</th><th scope="col" class="number">Number</th>
        <th scope="col" class="number">Price</th></tr></thead>
      <tbody>
        ${line('Checked live', freshChecks, `${money(priceMicros)} each`)}
        ${line('In your cache', cacheHits, 'free, reserved in case')}
        ${line('Duplicates', duplicateRows, 'free')}
        ${line('Not readable', invalidRows, 'free')}
      </tbody>
      <tfoot>${line('All', totalRows, `at most ${money(preflight.maxQuoteMicros)}`)}</tfoot>
    </table>
    <p class="hint">The maximum is reserved. What is not charged, as for rows without a verdict, is
      released when the job ends. Available: ${money(availableMicros)}.</p>
    ${isEnough
      ? html`<p class="row"><button class="button" type="button" id="confirm">Start the
          job</button><button class="button quiet" type="button" id="back">Change
          something</button></p>`
      : html`<p class="notice bad" role="alert">${money(preflight.maxQuoteMicros - availableMicros)}
          more is needed. Have the balance topped up, or verify fewer rows.</p>
          <p><button class="button quiet" type="button" id="back">Change something</button></p>`}`
}
