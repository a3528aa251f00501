// The page's own HMAC-SHA256, held against that of node and against RFC 4231.
import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import test from 'node:test'
import { hmac, isSame } from '../../src/api/hmac'

test('the second case of RFC 4231', () => {
  assert.equal(hmac('Jefe', 'what do ya want for nothing?'), '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843')
})

test('every length around the limits of a block is as node says', () => {
  for (const keyLength of [0, 1, 63, 64, 65, 200]) {
    for (let length = 0; length < 200; length++) {
      const [key, message] = ['k'.repeat(keyLength), 'mé'.repeat(length).slice(0, length)]
      assert.equal(hmac(key, message), createHmac('sha256', key).update(message).digest('hex'), `${keyLength} ${length}`)
    }
  }
})

test('texts are the same only if they are', () => {
  assert.equal(isSame('abc', 'abc'), true)
  for (const other of ['', 'ab', 'abd', 'abcd']) assert.equal(isSame('abc', other), false, other)
})

test('a proof of the service is what the service computes', () => {
  // crates/daemon/src/web/proof.rs has it too.
  const message = 'nexus service\n127.0.0.1:4004\n00112233445566778899aabbccddeeff\nc'
  assert.equal(hmac('key', message), '93a026aca2d0e394b44c9a130d935dac4449721f627f2b67e4d83a10699a568d')
})

test('further keys are what the service computes', () => {
  // crates/daemon/src/web/proof.rs has them too.
  const message = '127.0.0.1:4004\n00112233\nc'
  assert.equal(hmac('key', `nexus tab key\n${message}`), 'c49a17ada90ada2b1821382eb6bc79333b3cb95b90b51208f37d7096b9131991')
  assert.equal(hmac('key', `nexus stored key\n${message}`), '5d877349b2374c915722b0b9f9236e74ffed0cbe7c1b1587f4ac5cddd0981fd0')
})
