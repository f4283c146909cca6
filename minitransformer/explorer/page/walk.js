export function view(app, element) {}
