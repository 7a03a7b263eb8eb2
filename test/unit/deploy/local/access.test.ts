import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { connect, createServer, getCACertificates } from 'node:tls'
import { describe, expect, it } from 'vitest'
import { makeSecure, openAccess, readAccess } from '../../../../deploy/local/access.ts'
import { argumentsFile } from '../../../../deploy/local/kafka-settings.ts'
import { loadSecrets } from '../../../../deploy/local/launcher/secrets.ts'
import { newFolder } from '../../../support/folder.ts'
import { listen } from '../../../support/listen.ts'

const folder = newFolder('access-')

const secure = (name: string) => {
  makeSecure(join(folder, name))
  const access = openAccess(join(folder, name))
  if (access === undefined) throw new Error('the folder is secure')
  return access
}

describe('the access to a secure stack', () => {
  it('is made once and kept', () => {
    const first = secure('once')
    const second = secure('once')
    expect(second.accounts).toEqual(first.accounts)
    expect(readAccess(second.folder)).toEqual(second)
  })

  it('has a certificate that is new with each start and trusted by this process', () => {
    const [first, second] = [secure('trust'), secure('trust')]
    const names = [first, second].map(({ certificate: { cert } }) => new X509Certificate(cert))
    expect(names.map(one => one.checkIP('127.0.0.1'))).toEqual(['127.0.0.1', '127.0.0.1'])
    expect(names[0]?.serialNumber).not.toBe(names[1]?.serialNumber)
    const trusted = getCACertificates('default').map(text => text.trim())
    expect(trusted).toContain(second.certificate.cert.trim())
    expect(readFileSync(second.files.authority, 'utf8')).toContain(second.certificate.cert)
  })

  it('is trusted as well as that of every other stack that this process has opened', async () => {
    for (const name of ['one', 'two', 'three', 'four']) {
      const { certificate: { cert, key } } = secure(name)
      const server = createServer({ cert, key }, socket => socket.end())
      const client = connect({ host: '127.0.0.1', port: await listen(server) })
      await once(client, 'secureConnect')
      client.destroy()
      server.close()
    }
  })

  it('cannot be added to a folder later, nor is it on by default', () => {
    loadSecrets(join(folder, 'open'))
    expect(openAccess(join(folder, 'open'))).toBeUndefined()
    expect(() => makeSecure(join(folder, 'open'))).toThrow(
      /holds a stack without passwords: delete it, or give another folder with --data/)
  })
})

it('arguments of a program stay as they are in a file', () => {
  const file = join(folder, 'words')
  expect(argumentsFile(file, ['-cp', 'a b', 'say "x\\y"'])).toBe(`@${file}`)
  expect(readFileSync(file, 'utf8')).toBe('"-cp"\n"a b"\n"say \\"x\\\\y\\""\n')
})
