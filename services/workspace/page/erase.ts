import type { RouteOptions } from 'fastify'
import type { JobStatusResource } from '../../client/client.ts'
import { customerRoutes, field, type PageDeps, type Visit } from './context.ts'
import { html, type Html } from './html.ts'
import { isEnded, jobName } from './job-components.ts'
import { pathIds } from './jobs.ts'
import { customerPage, sendHtml, tokenField } from './layout.ts'
import { PageError } from './page-error.ts'

/** The erasure of a job: a page that asks, and its form. */
export function eraseRoutes (deps: PageDeps): readonly RouteOptions[] {
  const route = customerRoutes(deps)
  return [
    route('GET', '/:mode/jobs/:id/erase', async ({ visit, request, reply }) => {
      const job = await visit.client.job(pathIds(request.params).id)
      if (!isErasable(job)) throw new PageError('not_found')
      return sendHtml(reply, eraseView(visit, job))
    }),
    route('POST', '/:mode/jobs/:id/erase', async ({ visit, request, reply }) => {
      const { id } = pathIds(request.params)
      await visit.client.eraseJob(id, { cache: field(request, 'cache') === 'yes' })
      return reply.redirect(`/${visit.tenant.mode}/jobs/${id}?notice=erased`, 303)
    }),
  ]
}

/** Whether a job has ended and is not erased yet. */
export function isErasable (job: JobStatusResource): boolean {
  return isEnded(job) && job.erasedAt === null
}

/** Asks whether a job is to be erased. */
export function eraseView (visit: Visit, job: JobStatusResource): Html {
  const path = `/${visit.tenant.mode}/jobs/${job.id}`
  return customerPage(visit, 'jobs', {
    title: 'Erase a job',
    body: html`
      <div class="narrow">
        <h1>Erase ${jobName(job)}?</h1>
        <p>Its inputs, results and labels become unreadable for ever, at once and for everybody.
          Counts, prices and movements of the balance stay. This cannot be undone.</p>
        <form method="post" action="${path}/erase">
          ${tokenField(visit.visitor.session)}
          <label class="check"><input type="checkbox" name="cache" value="yes">
            Also forget the cached verdicts of its contacts: later jobs check them again, and
            pay for it.</label>
          <p class="row"><button class="button bad" type="submit">Erase the job</button>
            <a class="button quiet" href="${path}">Keep it</a></p>
        </form>
      </div>`,
  })
}
