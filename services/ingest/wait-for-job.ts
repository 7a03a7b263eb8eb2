import type { FastifyRequest } from 'fastify'
import type { JobWait } from '../jobs/job-waiter.ts'
import type { Job } from '../jobs/job.ts'
import type { IngestDeps } from './ports.ts'

type Wanted = Pick<JobWait, 'tenant' | 'job' | 'timeoutMs'>

/**
 * The state of a job once its status has changed, or at the end of the wait. An ended job changes
 * no more.
 */
export async function waitForChange (
  deps: Pick<IngestDeps, 'waitForJob'>, request: FastifyRequest, wanted: Wanted
): Promise<Job | undefined> {
  let first: string | undefined
  const isDone = (job: Job) => {
    first ??= job.status
    return job.ended || job.status !== first
  }
  return await whileConnected(request, signal => deps.waitForJob({ ...wanted, isDone, signal }))
}

/**
 * Runs work with a signal that is aborted when the client closes its connection, even if only its
 * own half: then it may still read the answer, which it gets at once.
 */
export async function whileConnected<T> (
  { raw: { socket } }: FastifyRequest, work: (signal: AbortSignal) => Promise<T>
): Promise<T> {
  const closed = new AbortController()
  const abort = () => closed.abort()
  if (socket.readableEnded || socket.destroyed) abort()
  socket.once('end', abort).once('close', abort)
  try {
    return await work(closed.signal)
  } finally {
    socket.off('end', abort).off('close', abort)
  }
}
