# Interface target TegulaSQLite: SQLite with its headers and xxHash's, static with
# TEGULA_STATIC_LLVM.
find_path(SQLITE_INCLUDE sqlite3.h REQUIRED)
find_path(XXHASH_INCLUDE xxhash.h REQUIRED)
if(TEGULA_STATIC_LLVM)
    tegula_static(sqlite3 SQLITE_LIBRARY)
else()
    find_library(SQLITE_LIBRARY sqlite3 REQUIRED)
endif()
add_library(TegulaSQLite INTERFACE)
target_include_directories(TegulaSQLite SYSTEM INTERFACE ${SQLITE_INCLUDE} ${XXHASH_INCLUDE})
target_link_libraries(TegulaSQLite INTERFACE ${SQLITE_LIBRARY} Threads::Threads ${CMAKE_DL_LIBS} m)
