import { ApiError } from '../../client/client.ts'
import { isInfrastructure } from '../../lib/errors.ts'

/** Why a page can't be shown: what the viewer is told, and what to do about it. */
export type Fault = {
  readonly status: number
  readonly title: string
  readonly message: string
}

const FAULTS = {
  bad_form: {
    status: 400,
    title: 'That did not work',
    message: 'What was sent could not be read. Go back, check the form and send it again.',
  },
  signed_out: {
    status: 401,
    title: 'You are signed out',
    message: 'The session has ended. Sign in again with a new link.',
  },
  foreign: {
    status: 403,
    title: 'That form is too old',
    message: 'The form does not belong to this session. Load the page again, then repeat what ' +
      'you did.',
  },
  https_required: {
    status: 403,
    title: 'HTTPS is needed',
    message: 'This page is served over HTTPS only. Open it with an address that begins with ' +
      'https://.',
  },
  not_found: {
    status: 404,
    title: 'There is no such page',
    message: 'It does not exist, or belongs to somebody else. Go back to the overview.',
  },
  too_large: {
    status: 413,
    title: 'The file is too large',
    message: 'A job takes up to 100,000 rows. Split the file and verify its parts.',
  },
  unavailable: {
    status: 503,
    title: 'The service cannot answer now',
    message: 'Nothing is lost. Load the page again in a few seconds.',
  },
  internal: {
    status: 500,
    title: 'Something went wrong on our side',
    message: 'Load the page again. If it stays like this, tell us the number below.',
  },
} as const satisfies Readonly<Record<string, Fault>>

export type FaultCode = keyof typeof FAULTS

/** Ends a request with one of the faults; `message` says more than the fault itself. */
export class PageFault extends Error {
  override readonly name = 'PageFault'
  readonly fault: Fault

  constructor (code: FaultCode, message?: string) {
    super(code)
    this.fault = message === undefined ? FAULTS[code] : { ...FAULTS[code], message }
  }
}

/** What a failure is called on a page. Only texts that are written for customers are passed on. */
export function faultOf (error: unknown): Fault {
  if (error instanceof PageFault) return error.fault
  if (error instanceof ApiError) return apiFault(error)
  const { code, statusCode } = error as { readonly code?: string, readonly statusCode?: number }
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE') return FAULTS.too_large
  if (isInfrastructure(error) || isLostConnection(error)) return FAULTS.unavailable
  if (statusCode === 404) return FAULTS.not_found
  return statusCode !== undefined && statusCode < 500 ? FAULTS.bad_form : FAULTS.internal
}

/** The message of the interface without the status and code that stand before it. */
export function apiMessage (error: ApiError): string {
  return error.message.replace(/^\d+ [a-z_]+: /, '')
}

function apiFault (error: ApiError): Fault {
  const { status } = error
  if (status === 404) return FAULTS.not_found
  // The key of this server is unknown or ended: the next request takes a new one.
  if (status === 401 || status === 503) return FAULTS.unavailable
  if (status >= 500) return FAULTS.internal
  return { status, title: 'That did not work', message: apiMessage(error) }
}

/** A connection to the interface that failed is told by `fetch` as a TypeError with a cause. */
function isLostConnection (error: unknown): boolean {
  return error instanceof Error &&
    (error.name === 'TimeoutError' || (error instanceof TypeError && error.cause !== undefined))
}
