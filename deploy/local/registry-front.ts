import { Command } from 'commander'
import { Agent, createServer, request as forward } from 'node:https'
import { readAccess } from './access.ts'
import { isSignedIn } from './sign-in.ts'

const { port, behind, access: folder } = new Command('registry-front')
  .description('Lets the user of a secure stack through to its schema registry. Test equipment.')
  .requiredOption('--port <number>', 'port to listen on', Number)
  .requiredOption('--behind <number>', 'port of the registry', Number)
  .requiredOption('--access <folder>', 'certificate and accounts')
  .parse()
  .opts<{ port: number, behind: number, access: string }>()

const REFUSAL = JSON.stringify({ error_code: 401, message: 'Sign in with user and password.' })

const { accounts, certificate } = readAccess(folder)
const agent = new Agent({ keepAlive: true, ca: certificate.cert })

const server = createServer(certificate, (request, response) => {
  if (!isSignedIn(request, accounts.registry)) {
    const wanted = { 'WWW-Authenticate': 'Basic', 'Content-Type': 'application/json' }
    response.writeHead(401, wanted).end(REFUSAL)
    return
  }
  const { method, url, headers: { authorization, ...headers } } = request
  const place = { host: '127.0.0.1', port: behind, agent }
  const asking = forward({ ...place, method, path: url, headers }, answer => {
    answer.pipe(response.writeHead(answer.statusCode ?? 502, answer.headers))
  })
  asking.on('error', () => response.destroy())
  request.pipe(asking)
})
server.listen(port, '127.0.0.1', () => console.log(`listening on ${port}`))

process.once('SIGTERM', () => {
  server.close(() => process.exit(0))
  server.closeAllConnections()
})
