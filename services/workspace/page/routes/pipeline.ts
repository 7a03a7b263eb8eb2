import type { RouteOptions } from 'fastify'
import type { PageParts } from '../context.ts'
import { PageFault } from '../page-fault.ts'
import { textsOf, tonesOf } from '../pipeline/texts.ts'
import { pipelineView } from '../views/pipeline.ts'
import { sendPage } from './sign-in.ts'

/** The pipeline for those who run it, and its figures for the script that renews them. */
export function pipelineRoutes (parts: PageParts): readonly RouteOptions[] {
  return [
    {
      method: 'GET',
      url: '/pipeline',
      config: { access: 'operator' },
      handler: async ({ visitor }, reply) => {
        if (visitor === undefined) throw new PageFault('signed_out')
        return sendPage(reply, pipelineView(visitor.session, await parts.flows()))
      },
    },
    {
      method: 'GET',
      url: '/pipeline/figures',
      config: { access: 'operator', forScript: true },
      handler: async (_request, reply) => {
        const flows = await parts.flows()
        return reply.send({ texts: textsOf(flows), tones: tonesOf(flows) })
      },
    },
  ]
}
