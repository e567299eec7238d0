set(LIBS backend/cpu backend/interp)
