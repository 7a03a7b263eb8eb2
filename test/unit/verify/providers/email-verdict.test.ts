import { describe, expect, it } from 'vitest'
import {
  isDisposable, isFree, isReserved, isRole, suggestionFor,
} from '../../../../services/verify/providers/email-verdict.ts'

describe('a reserved mail domain', () => {
  it.each([
    ['localhost', true], ['x.test', true], ['a.example', true], ['x.invalid', true],
    ['printer.local', true], ['example.org', true], ['mail.example.com', true],
    ['[127.0.0.1]', true], ['[192.0.2.1]', true], ['[IPv6:2001:db8::1]', true],
    ['[93.184.215.14]', false], ['[IPv6:2606:4700::1]', false], ['under_score.org', false],
    ['notexample.org', false], ['example.de', false], ['gmail.com', false],
  ])('%s: %s', (domain, expected) => {
    expect(isReserved(domain)).toBe(expected)
  })
})

describe('a disposable mail domain', () => {
  it.each([
    ['mailinator.com', true], ['inbox.mailinator.com', true], ['gmail.com', false],
    ['duck.com', false], ['mozmail.com', false], ['simplelogin.com', false],
  ])('%s: %s', (domain, expected) => {
    expect(isDisposable(domain)).toBe(expected)
  })
})

describe('a free mail domain', () => {
  it.each([
    ['gmail.com', true], ['qq.com', true], ['web.de', true], ['ietf.org', false],
    ['mailinator.com', false],
  ])('%s: %s', (domain, expected) => {
    expect(isFree(domain)).toBe(expected)
  })
})

describe('a role name', () => {
  it.each([
    ['sales', true], ['Support', true], ['no-reply', true], ['info+news', true],
    ['jane.doe', false], ['+sales', false],
  ])('%s: %s', (local, expected) => {
    expect(isRole(local)).toBe(expected)
  })
})

describe('the suggestion for a mail domain', () => {
  it.each([
    ['gmial.com', 'gmail.com'], ['gmail.con', 'gmail.com'], ['gmail.co', 'gmail.com'],
    ['hotmial.com', 'hotmail.com'], ['outlok.com', 'outlook.com'], ['yahooo.com', 'yahoo.com'],
    ['gmail.com', undefined], ['ymail.com', undefined], ['email.com', undefined],
    ['cloud.com', undefined], ['ietf.org', undefined], ['glami.com', undefined],
  ])('%s: %s', (domain, expected) => {
    expect(suggestionFor(domain)).toBe(expected)
  })
})
