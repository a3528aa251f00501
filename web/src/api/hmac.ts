// HMAC-SHA256 (RFC 2104, FIPS 180-4). WebCrypto is missing where the page is served over plain HTTP at an address that is not
// this machine's own (--expose), and its functions are asynchronous: a request would then wait for its header.

/** The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
const ROUND_CONSTANTS = new Uint32Array([
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
  0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
  0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
  0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
  0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
  0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
])

const BLOCK_BYTES = 64

const rotate = (word: number, bits: number): number => (word >>> bits) | (word << (32 - bits))

/** Mixes one block of the message into the state. */
function compress(state: Uint32Array, block: DataView): void {
  const words = new Uint32Array(64)
  const at = (place: number): number => words[place] ?? 0
  for (let place = 0; place < 16; place++) words[place] = block.getUint32(place * 4)
  for (let place = 16; place < 64; place++) {
    const [far, near] = [at(place - 15), at(place - 2)]
    const small = rotate(far, 7) ^ rotate(far, 18) ^ (far >>> 3)
    const large = rotate(near, 17) ^ rotate(near, 19) ^ (near >>> 10)
    words[place] = at(place - 16) + small + at(place - 7) + large
  }
  let [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = state
  for (let round = 0; round < 64; round++) {
    const choice = (e & f) ^ (~e & g)
    const majority = (a & b) ^ (a & c) ^ (b & c)
    const first = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + choice + (ROUND_CONSTANTS[round] ?? 0) + at(round)
    const second = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + majority
    ;[h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0]
  }
  for (const [place, word] of [a, b, c, d, e, f, g, h].entries()) state[place] = (state[place] ?? 0) + word
}

function sha256(message: Uint8Array): Uint8Array {
  const state = new Uint32Array([0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19])
  const padded = new Uint8Array(Math.ceil((message.length + 9) / BLOCK_BYTES) * BLOCK_BYTES)
  padded.set(message)
  padded[message.length] = 0x80
  const view = new DataView(padded.buffer)
  view.setUint32(padded.length - 8, Math.floor(message.length / 2 ** 29))
  view.setUint32(padded.length - 4, message.length << 3)
  for (let start = 0; start < padded.length; start += BLOCK_BYTES) compress(state, new DataView(padded.buffer, start, BLOCK_BYTES))
  const digest = new DataView(new ArrayBuffer(32))
  for (const [place, word] of state.entries()) digest.setUint32(place * 4, word)
  return new Uint8Array(digest.buffer)
}

function joined(first: Uint8Array, second: Uint8Array): Uint8Array {
  const all = new Uint8Array(first.length + second.length)
  all.set(first)
  all.set(second, first.length)
  return all
}

export function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** HMAC-SHA256 of a text, in hexadecimal. The key is a text, too. */
export function hmac(key: string, message: string): string {
  const encoder = new TextEncoder()
  const given = encoder.encode(key)
  const block = new Uint8Array(BLOCK_BYTES)
  block.set(given.length > BLOCK_BYTES ? sha256(given) : given)
  const inner = sha256(joined(block.map((byte) => byte ^ 0x36), encoder.encode(message)))
  return hex(sha256(joined(block.map((byte) => byte ^ 0x5c), inner)))
}

/** Compares in a time that does not tell where the texts differ. */
export function isSame(one: string, other: string): boolean {
  let difference = one.length ^ other.length
  for (let place = 0; place < one.length; place++) difference |= one.charCodeAt(place) ^ other.charCodeAt(place)
  return difference === 0
}
