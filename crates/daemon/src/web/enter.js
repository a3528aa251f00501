// Opened by a link of `nexus web`: keeps the key that the service made for this browser, and goes on to the page.
// web/src/api/session.ts reads it.
const STORED_KEYS = 'nexus.keys'
const MAX_STORED_KEYS = 4

function storedKeys() {
  try {
    const keys = JSON.parse(localStorage.getItem(STORED_KEYS) ?? '[]')
    return Array.isArray(keys) ? keys : []
  } catch {
    return []
  }
}

const given = JSON.parse(document.querySelector('meta[name=nexus-key]').content)
localStorage.setItem(STORED_KEYS, JSON.stringify([given, ...storedKeys()].slice(0, MAX_STORED_KEYS)))
// The link leaves the history: it worked once.
location.replace('/')
