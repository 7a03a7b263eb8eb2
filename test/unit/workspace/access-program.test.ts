import { Command } from 'commander'
import { describe, expect, it } from 'vitest'
import { addKeyRing, addSignIn } from '../../../services/workspace/access-program.ts'
import { show } from '../../../services/workspace/show.ts'

describe('commands of access', () => {
  it('are those of the ring and of the sign-in', () => {
    const program = new Command('workspace')
    addKeyRing(program, () => {})
    addSignIn(program, () => {})
    const names = program.commands.flatMap(command =>
      [command.name(), ...command.commands.map(inner => inner.name())])
    expect(names).toEqual(['keys', 'list', 'rewrap', 'sign-in'])
  })
})

describe('what a command shows', () => {
  it('is lines for people and JSON for scripts', () => {
    const lines: string[] = []
    const print = (line: string) => { lines.push(line) }
    show(print, { id: 'a', list: [1] }, false)
    show(print, { id: 'a' }, true)
    expect(lines).toEqual(['id: a', 'list: [\n  1\n]', '{"id":"a"}'])
  })
})
