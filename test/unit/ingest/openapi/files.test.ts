import { describe, expect, it } from 'vitest'
import type { OpenApiDocument } from '../../../../services/ingest/openapi/document.ts'
import { withFiles } from '../../../../services/ingest/openapi/files.ts'

describe('the description of files', () => {
  it('is added to the operations that take them, and to no other', () => {
    const json = { schema: {} }
    const operation = (operationId: string) =>
      ({ operationId, requestBody: { content: { 'application/json': json } }, responses: {} })
    const paths = { '/a': { post: operation('createJob') }, '/b': { post: operation('other') } }
    const made = withFiles({ paths } as unknown as OpenApiDocument).paths
    expect(made['/b']).toEqual(paths['/b'])
    const post = made['/a']?.['post']
    expect(Object.keys(post?.requestBody?.content ?? {}))
      .toEqual(['application/json', 'text/csv', 'multipart/form-data'])
    expect(post?.parameters?.map(({ name }) => name)).toEqual([
      'service', 'column', 'header', 'delimiter', 'countryCode', 'forceFresh', 'webhook_url',
      'metadata',
    ])
  })
})
