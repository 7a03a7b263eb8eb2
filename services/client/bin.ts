#!/usr/bin/env node
import { runProgram } from './program.ts'

const { stdin: input, stdout: output, stderr: errors, env } = process

// The command that writes reports the error. Without a listener it would crash the process.
output.on('error', () => {})
process.exitCode = await runProgram(process.argv.slice(2), {
  input,
  output,
  errors,
  env,
  onInterrupt: action => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, action)
  },
})
// Requests of an interrupted command would keep the process alive.
process.exit()
