/** An answer of the service that is not a success, with the code of its error table. */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly status: number
  readonly code: string
  /** The field at fault, where the service names one. */
  readonly param: string | undefined
  /** What support asks for. */
  readonly requestId: string | undefined
  readonly retryAfterSeconds: number | undefined
  /** Whole numbers that a code adds: `requiredMicros` and `availableMicros` with 402. */
  readonly amounts: Readonly<Record<string, number>>

  constructor (response: Response, body: string) {
    const { code, message, param, request_id: requestId, ...more } = errorOf(body)
    super(`${response.status} ${code}: ${message}`)
    this.status = response.status
    this.code = code
    this.param = param
    this.requestId = requestId ?? response.headers.get('x-request-id') ?? undefined
    this.amounts = Object.fromEntries(Object.entries(more).filter(isAmount))
    const seconds = Number(response.headers.get('retry-after') ?? NaN)
    this.retryAfterSeconds = Number.isFinite(seconds) ? seconds : undefined
  }
}

type ErrorObject = {
  readonly code: string
  readonly message: string
  readonly param?: string
  readonly request_id?: string
}

const isAmount = (field: readonly [string, unknown]): field is [string, number] =>
  Number.isSafeInteger(field[1])

/** A proxy on the way may answer with anything. */
function errorOf (body: string): ErrorObject {
  try {
    const { error } = JSON.parse(body) as { readonly error: ErrorObject }
    return { ...error, code: error.code ?? 'unknown' }
  } catch {
    return { code: 'unknown', message: body.slice(0, 200) }
  }
}
