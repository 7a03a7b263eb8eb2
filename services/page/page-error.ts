import { ApiError } from '../client/client.ts'
import { FatalError, isInfrastructure } from '../runtime/platform/errors.ts'

/** What the user reads instead of a page: what happened, and what to do. */
export type ErrorContent = {
  readonly status: number
  readonly title: string
  readonly message: string
  /** What to do next; the overview by default. */
  readonly action?: { readonly path: string, readonly text: string }
}

const PAGE_ERRORS = {
  bad_form: {
    status: 400,
    title: 'That did not work',
    message: 'The form could not be read. Go back, check it and send it again.',
  },
  signed_out: {
    status: 401,
    title: 'You are signed out',
    message: 'The session has ended. Sign in again with a new link.',
  },
  forged_request: {
    status: 403,
    title: 'That form is too old',
    message: 'The form does not belong to this session. Load the page again, then repeat what ' +
      'you did.',
  },
  forbidden: {
    status: 403,
    title: 'Your role does not allow this',
    message: 'Ask an owner of your organization.',
  },
  step_up: {
    status: 403,
    title: 'Confirm that it is you',
    message: 'Sign in again, then repeat what you did.',
  },
  not_a_member: {
    status: 403,
    title: 'You are not a member',
    message: 'Ask an owner of your organization, or the operator of this installation.',
  },
  sign_in_failed: {
    status: 403,
    title: 'The sign-in did not succeed',
    message: 'It was interrupted, or took longer than ten minutes. Sign in again.',
    action: { path: '/sign-in', text: 'Sign in' },
  },
  https_required: {
    status: 403,
    title: 'HTTPS is required',
    message: 'This page is served over HTTPS only. Open its address with https:// at the ' +
      'beginning.',
  },
  not_found: {
    status: 404,
    title: 'There is no such page',
    message: 'It does not exist, or you have no access to it. Go back to the overview.',
  },
  organization_erased: {
    status: 410,
    title: 'This organization was erased',
    message: 'Its data was deleted on request, and its people cannot sign in any more. Ask the ' +
      'operator of this installation for another organization.',
    action: { path: '/sign-in', text: 'Go to the sign-in' },
  },
  too_large: {
    status: 413,
    title: 'The file is too large',
    message: 'A job has at most 100,000 rows. Split the file and verify its parts.',
  },
  too_many_requests: {
    status: 429,
    title: 'Too many requests',
    message: 'Too many requests came from your address without a sign-in. Wait some seconds, ' +
      'then load the page again.',
  },
  unavailable: {
    status: 503,
    title: 'The service is not available',
    message: 'Nothing is lost. Load the page again in a few seconds.',
  },
  provider_unavailable: {
    status: 503,
    title: 'The sign-in provider does not answer',
    message: 'Try again in a few seconds. Meanwhile the operator of this installation can sign ' +
      'you in with a link.',
    action: { path: '/sign-in', text: 'Sign in' },
  },
  internal: {
    status: 500,
    title: 'Something went wrong on our side',
    message: 'Load the page again. If the error remains, tell us the number below.',
  },
} as const satisfies Readonly<Record<string, ErrorContent>>

/** Answers a request with one of the errors; `message` replaces its text. */
export class PageError extends Error {
  override readonly name = 'PageError'
  readonly content: ErrorContent

  constructor (
    code: keyof typeof PAGE_ERRORS, message?: string, action?: ErrorContent['action']
  ) {
    super(code)
    this.content = {
      ...PAGE_ERRORS[code],
      ...message !== undefined && { message },
      ...action !== undefined && { action },
    }
  }
}

/** What the user reads about any error. It contains only texts that are written for customers. */
export function explainError (error: unknown): ErrorContent {
  if (error instanceof PageError) return error.content
  if (error instanceof ApiError) return apiErrorContent(error)
  const { code, statusCode } = error as { readonly code?: string, readonly statusCode?: number }
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE') return PAGE_ERRORS.too_large
  // A root key is missing: the log names it.
  if (error instanceof FatalError) return PAGE_ERRORS.unavailable
  // `fetch` throws a TypeError with a cause when the connection fails.
  const isDisconnected = error instanceof Error &&
    (error.name === 'TimeoutError' || (error instanceof TypeError && error.cause !== undefined))
  if (isInfrastructure(error) || isDisconnected) return PAGE_ERRORS.unavailable
  if (statusCode === 404) return PAGE_ERRORS.not_found
  return statusCode !== undefined && statusCode < 500 ? PAGE_ERRORS.bad_form : PAGE_ERRORS.internal
}

function apiErrorContent ({ status, message }: ApiError): ErrorContent {
  if (status === 404) return PAGE_ERRORS.not_found
  // Redis does not know the API key of this server any more. It is renewed within seven minutes.
  if (status === 401 || status === 503) return PAGE_ERRORS.unavailable
  if (status >= 500) return PAGE_ERRORS.internal
  return {
    status,
    title: PAGE_ERRORS.bad_form.title,
    // Without the status and the code in front of it.
    message: message.replace(/^\d+ [a-z_]+: /, ''),
  }
}
