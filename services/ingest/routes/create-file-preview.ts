import type { RouteOptions } from 'fastify'
import { FilePreviewSchema } from '../../../schemas/api/file-preview.ts'
import type { FairPool } from '../../runtime/platform/limits.ts'
import { SERVICE_SLUGS, type ServiceSlug } from '../../topology.ts'
import { reserveMemory } from '../body.ts'
import type { Settings } from '../config.ts'
import { previewFile } from '../file/preview-file.ts'
import { callerOf } from '../guard.ts'
import { unknownService } from '../request.ts'
import { sendError } from '../response.ts'

/** What is chosen for a file whose service is not named, first. */
const PREFERRED: readonly ServiceSlug[] = ['phone-validation', 'email-validation']

/** POST /api/v1/file-previews: what a file has, from its first lines; nothing is kept of it. */
export function createFilePreviewRoute (settings: Settings, budget: FairPool): RouteOptions {
  return {
    method: 'POST',
    url: '/api/v1/file-previews',
    config: {
      scope: 'jobs:write',
      takesFile: 'preview',
      errors: ['unknown_service', 'invalid_file'],
      records: null,
      sample: {
        curl: ['-F file=@contacts.csv'],
        client: () => [
          "const file = Buffer.from('name,phone\\nAnn,+12127365000\\n')",
          'const { column, service, reason } = await client.previewFile(file)',
          'console.log(column, service, reason)',
        ],
      },
    },
    schema: {
      operationId: 'previewFile',
      summary: 'See which contacts a file has',
      description: 'Reads the first 1,000 lines of a CSV file or a workbook, and says in which ' +
        'column the contacts are, which service takes them, and why. Of numbers without a ' +
        'country code it says which country fits them best. It creates no job, costs nothing, ' +
        'and nothing of the file is kept. The first lines of a file are enough.',
      tags: ['Quotes'],
      response: { 200: FilePreviewSchema },
    },
    ...reserveMemory(budget, settings.bodyThroughput),
    handler: async (request, reply) => {
      const { previewed } = request
      if (previewed === undefined) return sendError(reply, { code: 'unsupported_media_type' })
      const { service: slug } = request.body as { readonly service?: string }
      const service = SERVICE_SLUGS.find(name => name === slug)
      if (slug !== undefined && service === undefined) return sendError(reply, unknownService())
      const { mode } = callerOf(request)
      const services = [...PREFERRED, ...SERVICE_SLUGS]
        .filter(name => mode === 'test' || settings.checks.has(name))
      const { bytes, csv, reading } = previewed
      return reply.send(await previewFile(bytes, { ...csv, service, services }, reading))
    },
  }
}
