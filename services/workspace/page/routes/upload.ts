import type { FastifyRequest, RouteOptions } from 'fastify'
import { MAX_INPUTS } from '../../../../schemas/api/create-job.ts'
import type { JobRequest } from '../../../client/client.ts'
import type { Pace } from '../../../lib/body-pace.ts'
import { forCustomer, type PageParts } from '../context.ts'
import { PageFault } from '../page-fault.ts'
import { createUploadPlaces } from '../upload-places.ts'
import { quoteView, uploadView } from '../views/upload.ts'
import { sendPage } from './sign-in.ts'

/** As large as the body of a job. */
const MOST_BYTES = 35_651_584
const FILE_NAME_CHARACTERS = 200
const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

type Sent = {
  readonly service?: unknown
  readonly inputs?: unknown
  readonly country?: unknown
  readonly fresh?: unknown
  readonly webhook?: unknown
  readonly file?: unknown
  readonly id?: unknown
}

const forScript = {
  bodyLimit: MOST_BYTES, config: { access: 'customer', forScript: true },
} as const

/** A file: its quote, then its job. Contacts pass through and are kept nowhere in between. */
export function uploadRoutes (parts: PageParts, pace: Pace): readonly RouteOptions[] {
  const places = createUploadPlaces(pace)
  return [
    {
      method: 'GET',
      url: '/:mode/upload',
      config: { access: 'customer' },
      handler: forCustomer(parts, async ({ visit, reply }) =>
        sendPage(reply, uploadView(visit, await visit.client.services()))),
    },
    {
      method: 'POST',
      url: '/:mode/upload/quote',
      ...forScript,
      ...places,
      handler: forCustomer(parts, async ({ visit, request, reply }) => {
        const wanted = jobIn(request)
        const [quote, balance, services] = await Promise.all([
          visit.client.quote(wanted), visit.client.balance(), visit.client.services(),
        ])
        const priceMicros = services.find(({ slug }) => slug === wanted.service)?.priceMicros ?? 0
        const { availableMicros } = balance
        return reply.send({ html: quoteView({ quote, availableMicros, priceMicros }).html })
      }),
    },
    {
      method: 'POST',
      url: '/:mode/upload/job',
      ...forScript,
      ...places,
      handler: forCustomer(parts, async ({ visit, request, reply }) => {
        const { id } = request.body as Sent
        if (typeof id !== 'string' || !UUID_V4.test(id)) throw new PageFault('bad_form')
        const job = await visit.client.createJob(jobIn(request), id)
        return reply.send({ path: `/${visit.tenant.mode}/jobs/${job.id}` })
      }),
    },
  ]
}

/** The job that was asked for; the interface checks what only it can know. */
export function jobIn ({ body }: Pick<FastifyRequest, 'body'>): JobRequest {
  const { service, inputs, country, fresh, webhook, file } = (body ?? {}) as Sent
  if (typeof service !== 'string' || !areTexts(inputs)) throw new PageFault('bad_form')
  if (inputs.length === 0 || inputs.length > MAX_INPUTS) throw new PageFault('too_large')
  const name = textOf(file).slice(0, FILE_NAME_CHARACTERS)
  return {
    service,
    inputs,
    forceFresh: fresh === true,
    ...(textOf(country) === '' ? {} : { countryCode: textOf(country) }),
    ...(textOf(webhook) === '' ? {} : { webhook_url: textOf(webhook) }),
    ...(name === '' ? {} : { metadata: { file: name } }),
  }
}

function textOf (value: unknown): string {
  return typeof value === 'string' ? value.trim() : ''
}

function areTexts (value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every(one => typeof one === 'string')
}
