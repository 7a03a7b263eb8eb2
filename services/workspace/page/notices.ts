import type { FastifyRequest } from 'fastify'
import { html, type Html } from './html.ts'

/** What was just done, told on the page that follows; addresses carry its name, never a text. */
const NOTICES: Readonly<Record<string, string>> = {
  'key-revoked': 'The key is revoked. It stops working within a second.',
  'key-once': 'That key was made already, and its secret is not shown again. Make another one if ' +
    'you did not keep it.',
  'secret-once': 'That secret was made already and is not shown again. Make another one if you ' +
    'did not keep it.',
  'policy-saved': 'The freshness policy is saved. It counts for jobs from now on.',
  resent: 'The event is on its way once more.',
  trying: 'A delivery of that event is under way already; none was added.',
  cancelled: 'The job is being cancelled. Checks under way are finished and charged.',
  'signed-out': 'You are signed out. Sign in again with a new link.',
  left: 'You have signed out.',
  'link-spent': 'That link was used already, or is older than ten minutes. Ask for a new one.',
}

/** The notice that an address names, for the top of a page; nothing for any other. */
export function noticeIn (request: FastifyRequest): Html | undefined {
  const { notice = '' } = request.query as { readonly notice?: unknown }
  const text = Object.hasOwn(NOTICES, String(notice)) ? NOTICES[String(notice)] : undefined
  return text === undefined ? undefined : html`<p class="notice" role="status">${text}</p>`
}
