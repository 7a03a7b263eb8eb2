import type { JobStatusResource } from '../../../client/client.ts'
import type { AttemptBody } from '../../../../schemas/api/deliveries.ts'
import type { Visit } from '../context.ts'
import { count, time } from '../format.ts'
import { html, type Html } from '../html.ts'
import { tokenField } from '../layout.ts'
import { emptyState, isEnded, table } from './parts.ts'

const OUTCOMES: Readonly<Record<AttemptBody['outcome'], readonly [text: string, tone: string]>> = {
  delivered: ['Delivered', 'good'],
  failed: ['Failed, tried again', 'waiting'],
  gone: ['Receiver gone', 'bad'],
  exhausted: ['Given up', 'bad'],
  discarded: ['Discarded', 'muted'],
}

type Delivered = {
  readonly job: Pick<JobStatusResource, 'id' | 'status'>
  readonly attempts: readonly AttemptBody[]
}

/** What became of the webhook of a job, with a way to send its event once more. */
export function deliverySection (visit: Visit, { job, attempts }: Delivered): Html {
  const ids = [...new Set(attempts.map(({ deliveryId }) => deliveryId))]
  return html`<section><div class="heading">
      <h2>Webhook deliveries</h2>
      ${ids.map(id => html`
        <form method="post" action="/${visit.tenant.mode}/jobs/${job.id}/deliveries/${id}/resend">
          ${tokenField(visit.visitor.session)}
          <button class="button quiet" type="submit">Send once more</button>
        </form>`)}</div>
    ${attempts.length === 0
      ? emptyState(isEnded(job)
        ? 'No event was sent. A job that is given a webhook address sends one when it ends; the ' +
          'first try shows here within seconds.'
        : 'The event of this job is sent when the job ends, if it was given a webhook address.')
      : attemptTable(visit, attempts)}
  </section>`
}

function attemptTable ({ zone }: Visit, attempts: readonly AttemptBody[]): Html {
  return table('Webhook deliveries', [
    { text: 'Try', isNumber: true }, { text: 'When' }, { text: 'Outcome' },
    { text: 'Answer', isNumber: true }, { text: 'Why' }, { text: 'Took', isNumber: true },
  ], attempts.map(attempt => {
    const [text, tone] = OUTCOMES[attempt.outcome] ?? [attempt.outcome, 'muted']
    return html`<tr>
      <td class="number">${attempt.attempt}</td>
      <td>${time(attempt.attemptedAt, zone)}</td>
      <td><span class="badge ${tone}">${text}</span></td>
      <td class="number">${attempt.statusCode ?? '–'}</td>
      <td>${attempt.reason ?? '–'}</td>
      <td class="number">${count(attempt.durationMs)} ms</td>
    </tr>`
  }))
}
