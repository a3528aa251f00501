// The answer to a browser that looks for a new version of a service worker. nexus has none: another program registered it while
// it had the port. This one takes its place, deletes what it stored, unregisters itself, and loads the open pages anew.
self.addEventListener('install', () => self.skipWaiting())

async function end() {
  for (const name of await caches.keys()) await caches.delete(name)
  await self.registration.unregister()
  for (const page of await self.clients.matchAll({ type: 'window' })) void page.navigate(page.url).catch(() => {})
}

self.addEventListener('activate', (event) => event.waitUntil(end()))
