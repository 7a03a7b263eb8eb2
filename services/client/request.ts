import type { CreateJobBody } from '../../schemas/api/create-job.ts'

/** What POST /api/v1/jobs takes; the meaning of each field is in the API reference. */
export type JobRequest = Readonly<Omit<CreateJobBody, 'service' | 'inputs' | 'metadata'>> & {
  readonly service: string
  readonly inputs: readonly string[]
  readonly metadata?: Readonly<Record<string, string>>
}
